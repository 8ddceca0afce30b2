"""Takes from Kafka again what the archive lacks: files that are gone, damaged ones, gaps in a chain.

A damaged file is kept under a name that nobody reads. Another takes its place with the same offsets, so the
chain, the cuts of past nights and the positions of readers stay as they are.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from kafka import TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError

from sluice.archive import file, index
from sluice.archive.claim import Claims
from sluice.archive.file import ArchivedPartition
from sluice.archive.verification import Lacking, checked, places
from sluice.runtime.positions import Piece
from sluice.runtime.settings import Settings
from sluice.storage.hdfs import HdfsError
from sluice.storage.postgres import engine
from sluice.storage.tables import eras
from sluice.tasks.topics import TopicStore
from sluice.transmission.identity import Message, moved_on, records
from sluice.transmission.mac import identity_key
from sluice.transmission.reading import reader
from sluice.transmission.topics import Topics

REQUEST_MS, POLL_MS = 10_000, 500
PATIENCE_SECONDS = 30.0
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
                log = eras.logs(engine(settings), topic).get(place.partition)
                there = list(log.pieces(lacking.first, lacking.next)) if log else []
                whole = there and (there[0].start >= start) and there[0].end <= end
                if whole and there[0].end - there[0].start == lacking.next - lacking.first:
                    yield _repaired(settings, place, claims, lacking, there[0])
                else:
                    why_not = f"Kafka has offsets {start} to {end - 1}"
                    yield Repaired(place.partition, lacking.first, lacking.next, why_not=why_not)


def _repaired(
    settings: Settings, place: ArchivedPartition, claims: Claims, lacking: Lacking, piece: Piece
) -> Repaired:
    said = place.partition, lacking.first, lacking.next
    try:
        messages = _fetched(settings, place, piece)
    except KafkaError as error:
        return Repaired(*said, why_not=f"Kafka: {error.args[0] if error.args else error}")
    if not messages:
        return Repaired(*said, why_not="Kafka has no record there")
    made = file.of_records(
        place,
        lacking.first,
        [moved_on(each, piece.shift) for each in records(place.partition, messages, identity_key(settings))],
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


def _fetched(settings: Settings, place: ArchivedPartition, piece: Piece) -> list[Message]:
    """The records of these offsets: a file's worth at most. Raises KafkaError."""
    consumer = reader(
        settings.kafka,
        client_id="sluice-repair",
        auto_offset_reset="none",
        request_timeout_ms=REQUEST_MS,
    )
    at = TopicPartition(place.topic, place.partition)
    found: list[Message] = []
    try:
        consumer.assign([at])
        consumer.seek(at, piece.start)
        position, deadline = piece.start, time.monotonic() + PATIENCE_SECONDS
        while position < piece.end:
            found += consumer.poll(timeout_ms=POLL_MS).get(at, [])
            if (reached := consumer.position(at)) > position:
                position, deadline = reached, time.monotonic() + PATIENCE_SECONDS
            elif time.monotonic() > deadline:
                raise KafkaTimeoutError(f"nothing came from offset {position} on in {PATIENCE_SECONDS:g} s")
    finally:
        consumer.close()
    return [each for each in found if each.offset < piece.end]
