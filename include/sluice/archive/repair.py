"""Takes from Kafka again what the archive lacks: files that are gone, damaged ones, gaps in a chain.

A damaged file is kept under a name that nobody reads. Others take its place with the same offsets, so the
chain, the cuts of past nights and the positions of readers stay as they are. If it was merged of files that
are still there, these take its place.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import sqlalchemy
from kafka import TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError

from sluice.archive import chain, file, indexing
from sluice.archive.buffer import FILE_BYTES
from sluice.archive.chain import BrokenChain, Link
from sluice.archive.claim import Claims
from sluice.archive.contents import check_contents
from sluice.archive.file import ArchivedPartition
from sluice.archive.footer import UnreadableArchiveFile
from sluice.archive.index import at
from sluice.archive.standing import standing
from sluice.archive.verification import Lacking, checked, places
from sluice.runtime.positions import Piece
from sluice.runtime.settings import Settings
from sluice.storage.hdfs import HdfsError
from sluice.storage.postgres import engine
from sluice.storage.tables import eras
from sluice.storage.tables.schema import archive_files as files
from sluice.tasks.topics import TopicStore
from sluice.transmission.identity import Message, moved_on, records
from sluice.transmission.mac import identity_key
from sluice.transmission.reading import reader
from sluice.transmission.topics import Topics

REQUEST_MS, POLL_MS = 10_000, 500
PATIENCE_SECONDS = 30.0
ERASED = (
    "lines were erased there, and old files and Kafka would bring them back: restore the file from a backup "
    "that was taken since"
)
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


def repair(settings: Settings, topic: str, *, deep: bool = True) -> Iterator[Repaired]:
    """Verify every file of the topic's present incarnation, and take from Kafka what is not sound.

    deep: whether each file is read as a whole, and not its footer only.

    Raises TopicMissing, NotArchived, KafkaError, and HdfsUnavailable.
    """
    with Topics(settings) as topics:
        topic_id = topics.describe(topic).id
        for place, claims in places(settings, topic):
            if place.topic_id != topic_id:
                continue
            start, end = topics.bounds(topic, place.partition)
            for lacking in checked(engine(settings), place, claims, deep=deep).lacking:
                if has_erased(engine(settings), place, lacking):
                    yield Repaired(place.partition, lacking.first, lacking.next, why_not=ERASED)
                    continue
                if lacking.damaged and (again := _put_back(engine(settings), place, claims, lacking)):
                    yield again
                    continue
                log = eras.logs(engine(settings), topic).get(place.partition)
                there = list(log.pieces(lacking.first, lacking.next)) if log else []
                whole = there and (there[0].start >= start) and there[0].end <= end
                if whole and there[0].end - there[0].start == lacking.next - lacking.first:
                    yield _repaired(settings, place, claims, lacking, there[0])
                else:
                    why_not = f"Kafka has offsets {start} to {end - 1}"
                    yield Repaired(place.partition, lacking.first, lacking.next, why_not=why_not)


def has_erased(database: sqlalchemy.Engine, place: ArchivedPartition, lacking: Lacking) -> bool:
    """Whether lines of these offsets were erased, as the index says."""
    within = files.c.first.between(lacking.first, lacking.next - 1)
    found = sqlalchemy.select(files.c.first).where(*at(place), within, files.c.redacted > 0)
    with database.connect() as connection:
        return connection.execute(found.limit(1)).first() is not None


def _put_back(
    database: sqlalchemy.Engine, place: ArchivedPartition, claims: Claims, lacking: Lacking
) -> Repaired | None:
    """Let the files stand again of which a damaged one was merged; None if they are not all there."""
    found = claims.standing()
    merged = found.files.get(lacking.first)
    before = standing(each.file for each in found.replaced if each.by == merged).files.values()
    if merged is None or not before:
        return None
    try:
        footers = [claims.footer(each) for each in before]
        links = [Link(each.first, each.next, claims.named(each.name)) for each in footers]
        end = chain.check(place.topic, place.partition, links)
        if (links[0].first, end) != (lacking.first, lacking.next):
            return None
        for each, footer in zip(before, footers, strict=True):
            check_contents(claims.named(each.name), claims.opened(each), footer)
        claims.set_aside(merged.name)
    except (BrokenChain, UnreadableArchiveFile, HdfsError):
        return None
    with database.begin() as connection:
        for each, footer in zip(before, footers, strict=True):
            indexing.put_instead(connection, footer, each.length, claims.named(each.name))
    lines = sum(footer.lines for footer in footers)
    return Repaired(place.partition, lacking.first, lacking.next, lines=lines)


def _repaired(
    settings: Settings, place: ArchivedPartition, claims: Claims, lacking: Lacking, piece: Piece
) -> Repaired:
    said = place.partition, lacking.first, lacking.next
    lines, first = 0, lacking.first
    topic, key = TopicStore(engine(settings)).freeze(place.topic), identity_key(settings)
    aside = _damaged(claims, lacking)
    try:
        for messages, ends in _fetched(settings, place, piece):
            batches = [moved_on(each, piece.shift) for each in records(place.partition, messages, key)]
            following = lacking.next if ends else None
            made = file.of_records(place, first, batches, BY_HAND, topic, following=following)
            while aside:
                claims.set_aside(aside.pop())
            stands, length = claims.publish(made)
            with engine(settings).begin() as connection:
                indexing.put_instead(connection, stands, length, claims.named(stands.name))
            lines, first = lines + stands.lines, stands.next
    except KafkaError as error:
        return Repaired(*said, lines=lines, why_not=f"Kafka: {error.args[0] if error.args else error}")
    except HdfsError as error:
        return Repaired(*said, lines=lines, why_not=str(error))
    return Repaired(*said, lines=lines, why_not="" if lines else "Kafka has no record there")


def _damaged(claims: Claims, lacking: Lacking) -> list[str]:
    """The names of the damaged file and, first of all to be popped, of those that would stand without it."""
    if not lacking.damaged:
        return []
    found = claims.standing()
    file = found.files[lacking.first]
    return [file.name, *(each.file.name for each in found.replaced if each.by == file)]


def _fetched(
    settings: Settings, place: ArchivedPartition, piece: Piece
) -> Iterator[tuple[list[Message], bool]]:
    """The records of these offsets, a file's worth at a time, and whether they are the last.

    Raises KafkaError.
    """
    consumer = reader(
        settings.kafka,
        client_id="sluice-repair",
        auto_offset_reset="none",
        request_timeout_ms=REQUEST_MS,
    )
    at = TopicPartition(place.topic, place.partition)
    found: list[Message] = []
    size = 0
    try:
        consumer.assign([at])
        consumer.seek(at, piece.start)
        position, deadline = piece.start, time.monotonic() + PATIENCE_SECONDS
        while position < piece.end:
            more = [each for each in consumer.poll(timeout_ms=POLL_MS).get(at, []) if each.offset < piece.end]
            if more and size >= FILE_BYTES:
                yield found, False
                found, size, deadline = [], 0, time.monotonic() + PATIENCE_SECONDS
            found += more
            size += sum(len(each.value or b"") for each in more)
            if (reached := consumer.position(at)) > position:
                position, deadline = reached, time.monotonic() + PATIENCE_SECONDS
            elif time.monotonic() > deadline:
                raise KafkaTimeoutError(f"nothing came from offset {position} on in {PATIENCE_SECONDS:g} s")
    finally:
        consumer.close()
    if found:
        yield found, True
