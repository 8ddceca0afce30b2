"""How a member of a job is succeeded by another process of it, when it goes to another host.

A driver is succeeded while it runs, because Spark takes long to start: the next one waits for its topics. An
archiver stops first. It starts soon, and the others of its group have its partitions meanwhile.
"""

from __future__ import annotations

from functools import partial

from sluice.runtime import detached, successor
from sluice.runtime.settings import Settings
from sluice.runtime.successor import Overlap
from sluice.stack import jobs
from sluice.stack.job_hosting import job_and_number
from sluice.stack.progress import DriverState, SpeedLayerProgress, progress_file, read
from sluice_hosts.hosts import HostsError
from sluice_hosts.jobs import job_state, moving, places
from sluice_hosts.jobs.job_state import JobState
from sluice_hosts.placed import PlacedError

#: A host that is busy may not answer one look. After this time nobody knows whether its driver counts.
UNKNOWN_SECONDS = 15.0


def overlap(settings: Settings, member: str) -> Overlap | None:
    """When the member and its successor run side by side; None if they never do.

    They do on two hosts alone, and not for long if the member's host is silent.
    """
    if job_and_number(member)[0] != jobs.SPEED_LAYER:
        return None
    return Overlap(
        lambda: _goes(settings, member) and _works(settings, member),
        partial(_counts, settings, successor.name_of(member)),
    )


def _goes(settings: Settings, member: str) -> bool:
    """Whether the member is to run on another host."""
    try:
        return places.belongs_on(settings, member) != places.runs_on(settings, member)
    except (HostsError, PlacedError):
        return False


def _works(settings: Settings, member: str) -> bool:
    """Whether the member is seen to run, or was until just now."""
    if moving.seen(settings, member) is not None:
        return True
    record = detached.read(member, settings.home / "run")
    said = job_state.read(settings, member, record.pid) if record and detached.alive(record) else None
    try:
        unknown = said is not None and said.state == JobState.UNKNOWN
        return unknown and job_state.age(settings, member) < UNKNOWN_SECONDS
    except FileNotFoundError:
        return False


def _counts(settings: Settings, name: str) -> bool:
    """Whether the driver's process of that name says that it can count."""
    process = moving.seen(settings, name)
    said = read(progress_file(settings, name), SpeedLayerProgress)
    return process is not None and said.pid == process.pid and said.state == DriverState.RUNNING
