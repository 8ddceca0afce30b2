"""What is deployed, as it is on disk, and the lock of those who change it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from filelock import FileLock, Timeout

from sluice.collection.deploy_plan import Change
from sluice.collection.render import folder
from sluice.runtime.files import write_whole
from sluice.runtime.settings import Settings, make_secret


class DeployError(RuntimeError):
    """The agents could not be brought to what was asked."""


class DeployBusy(DeployError):
    """Another deployment, or the supervision, holds this instance."""


def write(settings: Settings, change: Change) -> None:
    """Put the agent's files in place, or remove its configuration if it goes.

    The position and the channel of an agent that goes stay, in case it comes back.
    """
    where = folder(settings, change.agent)
    if change.rendered is None:
        for name in ("agent.json", "agent.properties"):
            (where / name).unlink(missing_ok=True)
        return
    where.mkdir(parents=True, exist_ok=True)
    make_secret(settings.home, "identity")
    for pattern in [] if change.remote else change.rendered.agent.patterns(settings.home):
        pattern.directory.mkdir(parents=True, exist_ok=True)
    for name, text in change.rendered.files.items():
        write_whole(where / name, text)


@contextlib.contextmanager
def locked(settings: Settings, wait: bool) -> Iterator[None]:
    path = settings.home / "flume" / ".lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        held = FileLock(path).acquire(timeout=-1 if wait else 0)
    except Timeout as error:
        raise DeployBusy(f"another deployment holds {path}: wait for it") from error
    with held:
        yield
