"""The two jobs that run for ever, and how to see from outside whether they make progress.

A job is one process or several: its members are ``archiver``, ``archiver-2`` ..., or ``speed_layer``,
``speed_layer-2`` ... Each writes ``run/<member>.progress.json`` every second or two, even when idle. The
positions in it show its progress, and the lag of the Kafka groups shows what is still to do.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sluice.runtime import detached
from sluice.runtime.settings import Settings

SPEED_LAYER = "speed_layer"
#: A member whose progress is older than this does not work.
SILENT_SECONDS = 30.0

Document = dict[str, Any]


@dataclass(frozen=True)
class JobStatus:
    """How to read a job's progress files, and its Kafka group.

    together: one document of those of several members, by member.
    """

    position_of: Callable[[Document], Any]  # of a topic's part of a file
    group: str  # sluice-<this>-<topic>
    together: Callable[[Mapping[str, Document]], Document]


def drivers(settings: Settings) -> list[str]:
    """The names of the speed layer's drivers, the first one first."""
    return [SPEED_LAYER, *(f"{SPEED_LAYER}-{number}" for number in range(2, settings.speed.drivers + 1))]


def running_drivers(settings: Settings) -> list[str]:
    """Those drivers that run, by their progress files."""
    found = members(settings, SPEED_LAYER)
    return [
        name
        for name in drivers(settings)
        if name in found and found[name].get("state") == "running" and not silent(found[name])
    ]


def progress(settings: Settings, job: str) -> Document:
    """The content of the job's progress file; empty if there is none that can be read.

    Of a job with several members it is that of all. Of drivers, each topic says which `driver` counts it, and
    when that one wrote (`updated_at`). The document is as old as the oldest member's.
    """
    found = members(settings, job)
    if len(found) > 1:
        return JOBS[job].together(found)
    return next(iter(found.values()), {})


def progress_file(settings: Settings, member: str) -> Path:
    """Where a member of a job writes its progress."""
    return settings.home / "run" / f"{member}.progress.json"


def members(settings: Settings, job: str) -> dict[str, Document]:
    """The progress of each member that there should be, by its name, the first one first.

    A process is missed if there is a record of it. An archiver that is silent is none: the others have its
    partitions. Nobody else has a driver's topics.
    """
    run = settings.home / "run"
    names = sorted(path.name.removesuffix(".progress.json") for path in run.glob(f"{job}-*.progress.json"))
    recorded = detached.names(run) if job == SPEED_LAYER else ()
    found = {job: read(settings, job)}
    for name in names:
        document, missed = read(settings, name), name in recorded
        if document and (missed or (not silent(document) and document.get("state") != "stopped")):
            found[name] = document
    return {name: document for name, document in found.items() if document}


def silent(document: Mapping[str, Any]) -> bool:
    """Whether a member has not written its progress for long."""
    return time.time() - written(document) > SILENT_SECONDS


def written(document: Mapping[str, Any]) -> float:
    """When a member wrote its progress, in seconds since the epoch."""
    at = document.get("updated_at", 0.0)
    return datetime.fromisoformat(at).timestamp() if isinstance(at, str) else float(at)


def read(settings: Settings, member: str) -> Document:
    """What a member says of its progress; empty if it says nothing that can be read."""
    try:
        return dict(json.loads(progress_file(settings, member).read_text()))
    except (FileNotFoundError, ValueError):
        return {}


def _one_archiver(members: Mapping[str, Document]) -> Document:
    """A partition is as the member says that wrote last. A topic is archived if one member archives it."""
    topics: dict[str, Any] = {}
    for member in sorted(members.values(), key=written):
        for name, topic in member.get("topics", {}).items():
            before = topics.get(name, topic)
            works = before if before.get("state") == "archiving" else topic
            partitions = {**before.get("partitions", {}), **topic.get("partitions", {})}
            topics[name] = {**topic, "state": works.get("state"), "partitions": partitions}
    return _of_all(members, topics)


def _one_driver(members: Mapping[str, Document]) -> Document:
    """A topic is as the driver says that counts it, or else as the one says that wrote last."""
    topics: dict[str, Any] = {}
    for driver, document in sorted(members.items(), key=lambda each: written(each[1])):
        for name, topic in document.get("topics", {}).items():
            if topic.get("state") == "counting" or topics.get(name, {}).get("state") != "counting":
                topics[name] = {**topic, "driver": driver, "updated_at": document.get("updated_at")}
    return _of_all(members, topics)


def _of_all(members: Mapping[str, Document], topics: Mapping[str, Any]) -> Document:
    oldest = min(members.values(), key=written)
    return {**next(iter(members.values())), "updated_at": oldest.get("updated_at"), "topics": topics}


JOBS = {
    SPEED_LAYER: JobStatus(lambda topic: topic.get("end"), "speed", _one_driver),
    "archiver": JobStatus(
        lambda topic: {number: each.get("position") for number, each in topic.get("partitions", {}).items()},
        "archive",
        _one_archiver,
    ),
}


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
    topics = read(settings, member).get("topics", {}) if job in JOBS else {}
    found = {name: JOBS[job].position_of(topic) for name, topic in topics.items()}
    if job == "archiver" and not any(found.values()) and member != job:
        return None
    return found or None


def lag(settings: Settings, member: str) -> int | None:
    """The Kafka records that the job has yet to process, over its topics; None if Kafka fails.

    Of a driver they are those of its own topics.
    """
    from kafka.errors import KafkaError

    from sluice.transmission.lag import group_lag
    from sluice.transmission.topics import TopicMissing

    job, records = _job(member), 0
    try:
        whole = read(settings, member) if job == SPEED_LAYER else progress(settings, job)
        for topic in whole.get("topics", {}):
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
