"""How a member of a job is succeeded by another process of it, when it goes to another host.

A driver is succeeded while it runs, because Spark takes long to start: the next one waits for its topics. An
archiver stops first. It starts soon, and the others of its group have its partitions meanwhile.
"""

from __future__ import annotations

from functools import partial

from sluice.elsewhere import moving, places
from sluice.runtime import successor
from sluice.runtime.settings import Settings
from sluice.runtime.successor import Overlap
from sluice.stack import jobs


def overlap(settings: Settings, member: str) -> Overlap | None:
    """When the member and its successor run side by side; None if they never do.

    A driver that is not seen to run, as its host is silent, is worth no wait.
    """
    if places.job_of(member)[0] != jobs.SPEED_LAYER:
        return None
    ready = partial(_counts, settings, successor.name_of(member))
    return Overlap(lambda: moving.seen(settings, member) is not None, ready)


def _counts(settings: Settings, name: str) -> bool:
    """Whether the driver's process of that name says that it can count."""
    process, said = moving.seen(settings, name), jobs.read(settings, name)
    return process is not None and said.get("pid") == process.pid and said.get("state") == "running"
