"""Takes from Kafka again what the archive lacks: files that are gone, damaged ones, gaps in a chain.

A damaged file is kept under a name that nobody reads. Another takes its place with the same offsets, so the
chain, the cuts of past nights and the positions of readers stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafka import TopicPartition
from kafka.errors import KafkaError

from sluice.archive import file, index
from sluice.archive.claim import Claims
from sluice.archive.file import ArchivedPartition
from sluice.archive.verification import Lacking, checked, places
from sluice.runtime.settings import Settings
from sluice.storage.hdfs import HdfsError
from sluice.storage.postgres import engine
from sluice.tasks.topics import TopicStore
from sluice.transmission.identity import Message, records
from sluice.transmission.mac import identity_key
from sluice.transmission.reading import reader
from sluice.transmission.topics import Topics

REQUEST_MS, POLL_MS = 10_000, 500
#: As footers know no generation of a consumer group here.
BY_HAND = -1


@dataclass(frozen=True)
class Repaired:
    """Offsets [first, next) of a partition, and how many lines they have again; or why they have none."""

    partition: int
    first: int
    next: int
    lines: int = 0
    why_not: str = ""


def repair(settings: Settings, topic: str) -> Iterator[Repaired]:
    """Verify every file of the topic's present incarnation, and take from Kafka what is not sound.

    Raises TopicMissing, NotArchived, KafkaError, and HdfsUnavailable.
    """
    with Topics(settings) as topics:
        topic_id = topics.describe(topic).id
        for place, claims in places(settings, topic):
            if place.topic_id != topic_id:
                continue
            start, end = topics.bounds(topic, place.partition)
            for lacking in checked(engine(settings), place, claims, deep=True).lacking:
                yield _repaired(settings, place, claims, lacking, (start, end))


def _repaired(
    settings: Settings, place: ArchivedPartition, claims: Claims, lacking: Lacking, log: tuple[int, int]
) -> Repaired:
    said = place.partition, lacking.first, lacking.next
    if lacking.first < log[0] or lacking.next > log[1]:
        return Repaired(*said, why_not=f"Kafka has offsets {log[0]} to {log[1] - 1}")
    try:
        messages = _fetched(settings, place, lacking)
    except KafkaError as error:
        return Repaired(*said, why_not=f"Kafka: {error}")
    if not messages:
        return Repaired(*said, why_not="Kafka has no record there")
    made = file.of_records(
        place,
        lacking.first,
        list(records(place.partition, messages, identity_key(settings))),
        BY_HAND,
        TopicStore(engine(settings)).freeze(place.topic),
        following=lacking.next,
    )
    try:
        if lacking.damaged:
            claims.set_aside(lacking.first)
        standing, length = claims.publish(made)
    except HdfsError as error:
        return Repaired(*said, why_not=str(error))
    index.add(engine(settings), [(standing, length, claims.path(lacking.first))])
    return Repaired(*said, lines=standing.lines)


def _fetched(settings: Settings, place: ArchivedPartition, lacking: Lacking) -> list[Message]:
    """The records of these offsets: a file's worth at most. Raises KafkaError."""
    consumer = reader(
        settings.kafka,
        client_id="sluice-repair",
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="none",
        request_timeout_ms=REQUEST_MS,
        enable_incremental_fetch_sessions=False,
        metrics_enabled=False,
    )
    at = TopicPartition(place.topic, place.partition)
    found: list[Message] = []
    try:
        consumer.assign([at])
        consumer.seek(at, lacking.first)
        while consumer.position(at) < lacking.next:
            found += consumer.poll(timeout_ms=POLL_MS).get(at, [])
    finally:
        consumer.close()
    return [each for each in found if each.offset < lacking.next]
