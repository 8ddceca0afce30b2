"""A member of a job goes to another host. Its supervision sees where it belongs, and brings it there."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from sluice.collection.agent import LOCAL
from sluice.collection.errors import AgentError
from sluice.runtime import detached
from sluice.runtime.settings import Settings
from sluice_hosts import placed
from sluice_hosts.jobs import job_state, places
from sluice_hosts.jobs.job_state import JobState
from sluice_hosts.links import release
from sluice_hosts.trust import enrolment

Log = Callable[[str], None]

#: A job has to stop, and Python and Spark to start, on a machine that has much to do.
MOVE_SECONDS = 240.0
_POLL = 0.2


class JobNotMoved(AgentError):
    """A job did not arrive on its host; its target stays recorded."""


class JobMovedMeanwhile(JobNotMoved):
    """Somebody else wrote down another host for the job, while this one waited for it to arrive."""


class NoSuchPlace(ValueError):
    """There is no such job, or the host cannot have it; nothing was changed."""


@dataclass(frozen=True)
class RunningMember:
    """A member that is seen to run: on which host, and the number of the job's process there."""

    host: str
    pid: int


def move(settings: Settings, unit: str, to_host: str, log: Log) -> None:
    """Write down where the unit belongs, and wait until it is there. It may be repeated.

    The DAG that supervises the job sees that and moves it. A job that runs is not stopped for a host that is
    silent, or that has another Sluice: nothing is changed then. Raises NoSuchPlace, HostUnreachable,
    ReleaseError, JobNotMoved.
    """
    member = places.member(unit)
    _check(settings, unit, to_host)
    if member not in places.members(settings):
        placed.update(settings, {unit: to_host})
        log(f"{unit}: does not run now; it is to start on {to_host}")
        return
    if to_host != LOCAL and not arrived(settings, member, to_host):
        host = places.others(settings)[to_host]
        release.check(enrolment.link(settings, host), host.release or "", settings.root)
    placed.update(settings, {unit: to_host})
    _wait(settings, unit, to_host)
    log(f"{unit}: runs on {to_host}")


def _wait(settings: Settings, unit: str, to_host: str) -> None:
    member, deadline = places.member(unit), time.monotonic() + MOVE_SECONDS
    while not arrived(settings, member, to_host):
        if (now := placed.read(settings).get(unit)) != to_host:
            raise JobMovedMeanwhile(
                f"{unit} belongs on {now or LOCAL} now: somebody moved it there meanwhile"
            )
        if time.monotonic() > deadline:
            raise JobNotMoved(
                f"{unit} did not start on {to_host} within {MOVE_SECONDS:g} s and does when it can: see "
                f"`sluice logs {member}`, and whether the job's DAG runs"
            )
        time.sleep(_POLL)


def seen(settings: Settings, member: str) -> RunningMember | None:
    """The member, if it is seen to run. None also if its host does not answer.

    By its name in `runtime.successor` the successor of a member is seen.
    """
    record = detached.read(member, settings.home / "run")
    if record is None or not detached.alive(record):
        return None
    host = places.host_of(record)
    if host == LOCAL:
        return RunningMember(host, record.pid)
    said = job_state.read(settings, member, record.pid)
    return RunningMember(host, said.pid) if said is not None and said.state == JobState.ALIVE else None


def arrived(settings: Settings, member: str, host: str) -> bool:
    """Whether the member is seen to run on the host."""
    found = seen(settings, member)
    return found is not None and found.host == host


def _check(settings: Settings, unit: str, to_host: str) -> None:
    known = sorted({*map(places.unit, places.members(settings)), *places.written_down(settings)})
    if unit not in known:
        raise NoSuchPlace(f"there is no job {unit!r}: there are {', '.join(known) or 'none'}")
    if to_host != LOCAL and (why := places.bound(settings, unit.partition(":")[0])):
        raise NoSuchPlace(f"{unit} stays on local: {why}")
    others = places.others(settings)
    if to_host != LOCAL and to_host not in others:
        names = ", ".join([LOCAL, *others])
        raise NoSuchPlace(
            f"{to_host!r}: no host with the role {places.ROLE} in hosts.yaml; there are {names}"
        )
    if to_host != LOCAL and not enrolment.release_of(settings, others[to_host]):
        raise NoSuchPlace(f"{to_host} has no checked release: run `sluice hosts enrol {to_host}`")
