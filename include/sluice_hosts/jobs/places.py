"""Which host each member of a job belongs on, and on which it runs.

`placement.yaml` says the first, by the name of the unit: ``archiver:2: h3``. The record of the process here
says the second: it is the job itself, or a shadow that names the job's host.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from sluice.collection.agent import LOCAL
from sluice.runtime import detached
from sluice.runtime.detached import ProcessRecord
from sluice.runtime.settings import Settings
from sluice.stack.job_hosting import here, job_and_number
from sluice.stack.jobs import SPEED_LAYER
from sluice_hosts import hosts, placed
from sluice_hosts.hosts import Host, Role

ROLE: Role = "jobs"
#: The jobs that may run elsewhere.
JOBS = ("archiver", SPEED_LAYER)
_SHADOW = Path("jobs") / "shadow.py"


def unit(member: str) -> str:
    """The unit of a member of a job: archiver is archiver:1, and archiver-2 is archiver:2."""
    job, number = job_and_number(member)
    return f"{job}:{number}"


def member(unit: str) -> str:
    """The member of a unit."""
    job, _, number = unit.partition(":")
    return job if number == "1" else f"{job}-{number}"


def others(settings: Settings) -> dict[str, Host]:
    """The other hosts with the role. Raises HostsError."""
    return {name: h for name, h in hosts.load(settings).items() if name != LOCAL and ROLE in h.roles}


def bound(settings: Settings, job: str) -> str:
    """Why the job must run here; empty if it may run elsewhere."""
    master = settings.spark.master
    if job != SPEED_LAYER or master.startswith("local"):
        return ""
    return f"Spark's master is {master}, so its executors ask for a driver on this machine"


def belongs_on(settings: Settings, member: str) -> str:
    """Where the member is to run: on local, unless a host with the role is written down for it.

    Raises HostsError, PlacedError.
    """
    host = placed.read(settings).get(unit(member), LOCAL)
    return host if host in others(settings) and not bound(settings, job_and_number(member)[0]) else LOCAL


def written_down(settings: Settings) -> list[str]:
    """The units of jobs that a host is written down for, whether they run or not. Raises PlacedError."""
    return [each for each in placed.read(settings) if each.partition(":")[0] in JOBS]


def runs_on(settings: Settings, member: str) -> str | None:
    """The host of the process that is on record, whether it lives or not; None if there is no record."""
    record = detached.read(member, settings.home / "run")
    return None if record is None else host_of(record)


def host_of(record: ProcessRecord) -> str:
    """The host of the job that a process is, or stands for."""
    script, *arguments = record.argv[1:] or [""]
    return arguments[1] if script.endswith(str(_SHADOW)) else LOCAL


def members(settings: Settings) -> list[str]:
    """The members that are on record."""
    return [name for name in detached.names(settings.home / "run") if job_and_number(name)[0] in JOBS]


def command(settings: Settings, member: str, host: str, arguments: Sequence[str] = ()) -> list[str]:
    """What is run here for a member: the job, or its shadow. arguments: the job's own."""
    if host == LOCAL:
        return here(settings, member, arguments)
    own = here(settings, member, arguments)[2:]
    return [sys.executable, str(settings.root / _SHADOW), "--host", host, member, "--", *own]
