"""The instance that chaos has for itself: it begins empty, and another's data is refused."""

from __future__ import annotations

import shutil
from contextlib import AbstractContextManager

from sluice.runtime.one_at_a_time import one_at_a_time
from sluice.runtime.settings import Settings
from sluice.stack import shutdown
from sluice_lab.chaos import file_systems

INSTANCE = "chaos"
#: This file says that the instance was made by chaos, and so may be deleted.
OWNED = "made-by-chaos"


class OthersData(RuntimeError):
    """The instance has data that chaos did not make."""


class ChaosRuns(RuntimeError):
    """Another run of chaos uses the instance."""


def alone(settings: Settings) -> AbstractContextManager[None]:
    """Refuse a second run at the same time. Raises ChaosRuns."""
    return one_at_a_time(
        settings.home, ChaosRuns("another `sluice lab chaos` runs here: wait for its end, or end it")
    )


def begin(settings: Settings) -> None:
    """Delete what the last run left, and make the directory of the instance. Raises OthersData."""
    home = settings.home
    if home.exists() and any(home.iterdir()):
        if not (home / OWNED).exists():
            raise OthersData(
                f"instance {settings.instance!r} has data that chaos did not make, in {home}: chaos would "
                f"damage it. Delete it first: `sluice --instance {settings.instance} reset`"
            )
        file_systems.wake(settings)
        shutdown.abandon(settings)
        file_systems.unmount(settings)
        shutil.rmtree(home)
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    (home / OWNED).touch()
