"""What is deployed, as it is on disk, and the lock of those who change it."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from sluice.collection.agent import AGENT_FILE, Agent, folder
from sluice.collection.deploy_plan import AgentChange
from sluice.collection.hosting import machine_of
from sluice.runtime.files import write_whole
from sluice.runtime.settings import Settings, make_secret


class DeployError(RuntimeError):
    """The agents could not be brought to what was asked."""


class DeployBusy(DeployError):
    """Another deployment, or the supervision, holds this instance."""


def write(settings: Settings, change: AgentChange) -> None:
    """Put the agent's files in place, or remove its configuration if it goes.

    The position and the channel of an agent that goes stay, in case it comes back.
    """
    where = folder(settings, change.agent)
    if change.rendered is None:
        for name in (AGENT_FILE, "agent.properties"):
            (where / name).unlink(missing_ok=True)
        return
    where.mkdir(parents=True, exist_ok=True)
    make_secret(settings.home, "identity")
    machine_of(settings, change.rendered.agent).lay_out(change.rendered.agent)
    for name, text in change.rendered.files.items():
        write_whole(where / name, text)


def speaks_tls(settings: Settings, collector: Agent) -> bool:
    """Whether a deployed collector does; edges and collectors begin that together, in a deployment."""
    return ".hold = " in (folder(settings, collector.name) / "agent.properties").read_text()


@contextlib.contextmanager
def locked(settings: Settings, wait: bool) -> Iterator[None]:
    """The deployment's lock: nobody else changes agents meanwhile. Raises DeployBusy if it does not wait."""
    path = _lock(settings)
    try:
        held = FileLock(path).acquire(timeout=-1 if wait else 0)
    except Timeout as error:
        raise DeployBusy(f"another deployment holds {path}: wait for it") from error
    with held:
        yield


@contextlib.contextmanager
def moving(settings: Settings, collector: str) -> Iterator[None]:
    """The deployment's lock, shared by those who move different collectors; of one, there is one mover.

    It excludes deployments and the supervision. A mover changes nothing but its own collector, and what has
    a lock of its own: `guarded`, and `placed.update`.
    """
    with guarded(settings, f"move-{collector}"), _lock(settings).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_SH)  # `FileLock` has the same kind of lock, but not shared
        yield


@contextlib.contextmanager
def guarded(settings: Settings, what: str) -> Iterator[None]:
    """A lock for something that movers of different collectors would do at the same time."""
    with FileLock(_lock(settings).with_name(f".{what}.lock")):
        yield


def _lock(settings: Settings) -> Path:
    path = settings.home / "flume" / ".lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path
