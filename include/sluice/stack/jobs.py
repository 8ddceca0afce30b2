"""The two jobs that run for ever, and how to see from outside whether they make progress.

Both write ``run/<job>.progress.json`` every second or two, even when idle. The positions in it show their
progress, and the lag of their Kafka groups shows what they still have to do.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluice.runtime.settings import Settings

#: A member that has not written its progress for so long does not count.
SILENT_SECONDS = 30.0


@dataclass(frozen=True)
class Job:
    """How to read a topic's position from the job's progress file, and the job's Kafka group."""

    position_of: Callable[[dict[str, Any]], Any]
    group: str  # sluice-<this>-<topic>


JOBS = {
    "speed_layer": Job(lambda topic: topic.get("end"), "speed"),
    "archiver": Job(
        lambda topic: {number: each.get("position") for number, each in topic.get("partitions", {}).items()},
        "archive",
    ),
}


def progress(settings: Settings, job: str) -> dict[str, Any]:
    """The content of the job's progress file; empty if there is none that can be read.

    Of a job with several members it is that of all, without those that have been silent for long.
    """
    own = _read(settings, job)
    others = (settings.home / "run").glob(f"{job}-*.progress.json")
    found = [_read(settings, path.name.removesuffix(".progress.json")) for path in others]
    living = [each for each in found if time.time() - each.get("updated_at", 0) < SILENT_SECONDS]
    return _together([own, *living]) if own and living else own


def progress_file(settings: Settings, member: str) -> Path:
    """Where a member of a job writes its progress."""
    return settings.home / "run" / f"{member}.progress.json"


def _read(settings: Settings, member: str) -> dict[str, Any]:
    try:
        return dict(json.loads(progress_file(settings, member).read_text()))
    except (FileNotFoundError, ValueError):
        return {}


def _together(members: list[dict[str, Any]]) -> dict[str, Any]:
    """One document of the archivers' ones: a partition is as the member says that wrote last.

    A topic is archived if one member archives it; the document is as old as the oldest.
    """
    topics: dict[str, Any] = {}
    for member in sorted(members, key=lambda each: each["updated_at"]):
        for name, topic in member.get("topics", {}).items():
            before = topics.get(name, topic)
            works = before if before.get("state") == "archiving" else topic
            partitions = {**before.get("partitions", {}), **topic.get("partitions", {})}
            topics[name] = {**topic, "state": works.get("state"), "partitions": partitions}
    oldest = min(each["updated_at"] for each in members)
    return {**members[0], "updated_at": oldest, "topics": topics}


def failing(settings: Settings, job: str) -> dict[str, str]:
    """The topics that the job cannot process now, and the last error of each."""
    return {
        name: (topic.get("errors") or [{}])[-1].get("message", "it does not say why")
        for name, topic in progress(settings, job).get("topics", {}).items()
        if topic.get("state") == "failed"
    }


def position(settings: Settings, member: str) -> Any:
    """A value that changes with the progress of a job, or of one of its members.

    None before it began, for an unknown job, and for a member without work: the others have it.
    """
    job = _job(member)
    topics = _read(settings, member).get("topics", {}) if job in JOBS else {}
    found = {name: JOBS[job].position_of(topic) for name, topic in topics.items()}
    if job == "archiver" and not any(found.values()) and member != job:
        return None
    return found or None


def lag(settings: Settings, member: str) -> int | None:
    """The Kafka records that the job has yet to process, over its topics; None if Kafka fails."""
    from kafka.errors import KafkaError

    from sluice.transmission.lag import group_lag
    from sluice.transmission.topics import TopicMissing

    job, records = _job(member), 0
    try:
        for topic in progress(settings, job).get("topics", {}):
            group = f"sluice-{JOBS[job].group}-{topic}"
            with suppress(TopicMissing):  # it was described before its first line: there is no work yet
                records += sum(each.records for each in group_lag(settings, group, topic).values())
    except KafkaError:
        return None
    return records


def _job(member: str) -> str:
    """The job that a member belongs to: archiver-2 is one of archiver."""
    job, _, number = member.rpartition("-")
    return job if number.isdecimal() else member
