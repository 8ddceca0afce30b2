"""The two jobs that run for ever, and how to see from outside whether they make progress.

A job is one process or several: its members are ``archiver``, ``archiver-2`` ..., or ``speed_layer``,
``speed_layer-2`` ... Each writes a progress file every second or two, even when idle (`stack.progress`). The
positions in it show its progress, and the lag of the Kafka groups shows what is still to do.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeVar

from sluice.runtime import detached
from sluice.runtime.detached import PROGRESS_SUFFIX
from sluice.runtime.settings import Settings
from sluice.stack.progress import (
    ArchivedTopic,
    ArchiverProgress,
    ArchivingState,
    CountedTopic,
    CountingState,
    DriverState,
    JobProgress,
    SpeedLayerProgress,
    progress_file,
    read,
)

SPEED_LAYER, ARCHIVER = "speed_layer", "archiver"
#: A member whose progress is older than this does not work.
SILENT_SECONDS = 30.0

Progress = TypeVar("Progress", bound=JobProgress)


def drivers(settings: Settings) -> list[str]:
    """The names of the speed layer's drivers, the first one first."""
    return [SPEED_LAYER, *(f"{SPEED_LAYER}-{number}" for number in range(2, settings.speed.drivers + 1))]


def running_drivers(settings: Settings) -> list[str]:
    """Those drivers that run, by their progress files."""
    found = driver_files(settings)
    return [
        name
        for name in drivers(settings)
        if name in found and found[name].state == DriverState.RUNNING and not silent(found[name])
    ]


def speed_layer(settings: Settings) -> SpeedLayerProgress:
    """The progress of all drivers as one document; empty if there is none that can be read.

    Each topic says whose file it is from (`driver`), and when that was written. A topic is as the driver says
    that counts it, or else as the one says that wrote last. The document is as old as the oldest driver's.
    """
    found = driver_files(settings)
    if not found:
        return SpeedLayerProgress()
    topics: dict[str, CountedTopic] = {}
    for driver, document in sorted(found.items(), key=lambda each: written(each[1])):
        for name, topic in document.topics.items():
            before = topics.get(name, topic)
            if topic.state == CountingState.COUNTING or before.state != CountingState.COUNTING:
                whose = {"driver": driver, "updated_at": document.updated_at}
                topics[name] = topic.model_copy(update=whose)
    return _as_one(found, topics)


def archiver(settings: Settings) -> ArchiverProgress:
    """The progress of all archivers as one document; empty if there is none that can be read.

    A partition is as the member says that wrote last. A topic is archived if one member archives it. The
    document is as old as the oldest member's.
    """
    found = archiver_files(settings)
    if not found:
        return ArchiverProgress()
    topics: dict[str, ArchivedTopic] = {}
    for member in sorted(found.values(), key=written):
        for name, topic in member.topics.items():
            before = topics.get(name, topic)
            works = before if before.state == ArchivingState.ARCHIVING else topic
            partitions = {**before.partitions, **topic.partitions}
            topics[name] = topic.model_copy(update={"state": works.state, "partitions": partitions})
    return _as_one(found, topics)


def driver_files(settings: Settings) -> dict[str, SpeedLayerProgress]:
    """The progress of each driver that there should be, by its name, the first one first.

    A driver whose process is recorded is missed while it is silent, because nobody else has its topics.
    """
    run = settings.home / "run"
    recorded = detached.names(run)
    found = _files(settings, SPEED_LAYER, SpeedLayerProgress)
    return {
        name: document
        for name, document in found.items()
        if name == SPEED_LAYER
        or name in recorded
        or (not silent(document) and document.state != DriverState.STOPPED)
    }


def archiver_files(settings: Settings) -> dict[str, ArchiverProgress]:
    """The progress of each archiver that works, and of the first one, by its name, the first one first.

    Another one that is silent is not missed: the others have its partitions.
    """
    found = _files(settings, ARCHIVER, ArchiverProgress)
    return {name: document for name, document in found.items() if name == ARCHIVER or not silent(document)}


def of_member(settings: Settings, member: str) -> JobProgress:
    """What a member says of its progress; empty if it says nothing that can be read, or of an unknown job."""
    kind = KINDS.get(job_of(member), JobProgress)
    return read(progress_file(settings, member), kind)


def silent(document: JobProgress) -> bool:
    """Whether a member has not written its progress for long."""
    return time.time() - written(document) > SILENT_SECONDS


def written(document: JobProgress) -> float:
    """When a member wrote its progress, in seconds since the epoch; 0 if it never did."""
    return document.updated_at.timestamp() if document.updated_at else 0.0


def job_of(member: str) -> str:
    """The job that a member belongs to: archiver-2 is one of archiver."""
    job, _, number = member.rpartition("-")
    return job if number.isdecimal() else member


#: What a member of each job writes.
KINDS: Mapping[str, type[JobProgress]] = {SPEED_LAYER: SpeedLayerProgress, ARCHIVER: ArchiverProgress}


def failing(settings: Settings, job: str) -> dict[str, str]:
    """The topics that the job cannot process now, and the last error of each."""
    if job != SPEED_LAYER:
        return {}  # an archiver writes alerts itself
    return {
        name: topic.errors[-1].message if topic.errors else "it does not say why"
        for name, topic in speed_layer(settings).topics.items()
        if topic.state == CountingState.FAILED
    }


def position(settings: Settings, member: str) -> Any:
    """A value that changes with the progress of a member of a job.

    None before it began, for an unknown job, and for a member without work: the others have it.
    """
    found = {
        name: topic.end if isinstance(topic, CountedTopic) else _positions(topic)
        for name, topic in of_member(settings, member).topics.items()
    }
    if job_of(member) == ARCHIVER and not any(found.values()) and member != ARCHIVER:
        return None
    return found or None


def lag(settings: Settings, member: str) -> int | None:
    """The Kafka records that the job has yet to process, over its topics; None if Kafka fails.

    Of a driver they are those of its own topics.
    """
    from kafka.errors import KafkaError

    from sluice.transmission.lag import archive_group, group_lag, speed_group
    from sluice.transmission.topics import TopicMissing

    counts, records = job_of(member) == SPEED_LAYER, 0
    try:
        for topic in of_member(settings, member).topics if counts else archiver(settings).topics:
            group = speed_group(topic) if counts else archive_group(topic)
            with suppress(TopicMissing):  # it was described before its first line: there is no work yet
                records += sum(each.records for each in group_lag(settings, group, topic).values())
    except KafkaError:
        return None
    return records


def _positions(topic: ArchivedTopic) -> dict[int, int | None]:
    return {number: each.position for number, each in topic.partitions.items()}


def _files(settings: Settings, job: str, kind: type[Progress]) -> dict[str, Progress]:
    """What each member's file says, of those that can be read; the first member's first."""
    run = settings.home / "run"
    others = sorted(path.name.removesuffix(PROGRESS_SUFFIX) for path in run.glob(f"{job}-*{PROGRESS_SUFFIX}"))
    found = {name: read(progress_file(settings, name), kind) for name in (job, *others)}
    return {name: document for name, document in found.items() if document.updated_at}


def _as_one(members: Mapping[str, Progress], topics: Mapping[str, object]) -> Progress:
    oldest = min(members.values(), key=written)
    first = next(iter(members.values()))
    return first.model_copy(update={"updated_at": oldest.updated_at, "topics": topics})
