"""On which machines the jobs that run for ever run. The core runs them here; another package may move them.

It joins by an entry point of the group `sluice` with the name `jobs`, which is a `JobHosting`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from sluice.runtime.joined import joined
from sluice.runtime.settings import Settings
from sluice.runtime.successor import Overlap

Log = Callable[[str], object]


class JobHosting:
    """Every job runs on this machine. A subclass knows other machines, too."""

    def command(self, settings: Settings, member: str, arguments: Sequence[str]) -> list[str]:
        """What is to run here for a member of a job: the job, or what stands for it. arguments: the job's."""
        return here(settings, member, arguments)

    def overlap(self, settings: Settings, member: str) -> Overlap | None:
        """When the member and its successor run side by side; None if they never do."""
        return None

    def alerts(self, settings: Settings, job: str) -> dict[str, str]:
        """What is wrong with members of the job that run elsewhere, by the alert's name."""
        return {}

    def stop_leftovers(self, settings: Settings, log: Log) -> dict[str, str]:
        """Stop what other machines run although nobody asks for it; what is wrong with the others, by name.

        Raises HostListError.
        """
        return {}

    def known_elsewhere(self, settings: Settings, member: str) -> bool:
        """Whether another machine may still run the member."""
        return False


def job_hosting() -> JobHosting:
    """The machines that this installation knows."""
    found = joined("jobs")
    return JobHosting() if found is None else found


def job_and_number(member: str) -> tuple[str, int]:
    """The job of a member, and which of its members it is: archiver-2 is the second archiver."""
    job, _, number = member.rpartition("-")
    return (job, int(number)) if number.isdecimal() else (member, 1)


def here(settings: Settings, member: str, arguments: Sequence[str] = ()) -> list[str]:
    """The command of a member that runs on this machine. arguments: the job's own."""
    job, number = job_and_number(member)
    own = [*arguments, *([] if number == 1 else ["--member", member])]
    return [sys.executable, str(settings.root / "jobs" / f"{job}.py"), *own]
