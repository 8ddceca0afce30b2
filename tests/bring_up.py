"""The instance that the tests use: ``python -m tests.bring_up`` starts it, or repairs it if it runs already.

It is ``test``, and begins with nothing in it, unless SLUICE_TEST_INSTANCE names another, which is used as it
is.
"""

from __future__ import annotations

import os
import shutil
import sys

from sluice.cli import instance
from sluice.runtime.jvm import QUICK
from sluice.runtime.settings import Settings
from sluice.stack import bringup, entry, shutdown, supervisord
from sluice.stack.catalogue import DAEMONS

TEST_INSTANCE = "test"


def instance_settings() -> Settings:
    return Settings(instance=os.environ.get("SLUICE_TEST_INSTANCE") or TEST_INSTANCE)


def variables(settings: Settings) -> dict[str, str]:
    """What the instance's processes, and the tests themselves, have in their environment."""
    return {
        "SLUICE_INSTANCE": settings.instance,
        # What is brought up here can be killed at a named point: sluice.runtime.crash_points.
        "SLUICE_FAULTS": str(settings.home / "faults"),
        # The team's metrics, and one that fails: tests/e2e/failing_metrics.
        "SLUICE_METRICS__PATH": str(settings.home / "metrics"),
        "JAVA_TOOL_OPTIONS": QUICK,
        # Nobody waits for an archive file to grow old.
        "SLUICE_ARCHIVE__MAX_AGE_SECONDS": "2",
    }


def bring_up(settings: Settings) -> None:
    def say(text: str) -> None:
        print(text, flush=True)

    begin = not supervisord.running(settings)
    if begin:
        take_down(settings)  # what a run that was killed left behind
        if settings.instance == TEST_INSTANCE and settings.home.exists():
            shutil.rmtree(settings.home)
        _metrics(settings)
    if begin or any(entry.check(settings, daemon) for daemon in DAEMONS):
        instance.up(settings, say)


def take_down(settings: Settings) -> None:
    """Stop the instance; the tests' own, which begins with nothing, at once."""
    if settings.instance == TEST_INSTANCE:
        shutdown.abandon(settings)
    else:
        instance.down(settings, print)


def _metrics(settings: Settings) -> None:
    """The folder of the team's metrics that the platform gets: its own, and those that fail."""
    folder = settings.home / "metrics"
    folder.mkdir(parents=True, exist_ok=True)
    for source in ("include/metrics", "tests/e2e/failing_metrics"):
        for file in (settings.root / source).glob("*.py"):
            shutil.copy(file, folder)


if __name__ == "__main__":
    chosen = instance_settings()
    os.environ.update(variables(chosen))
    try:
        bring_up(chosen)
    except (bringup.BringUpFailed, bringup.PortInUse) as error:
        sys.exit(str(error))
