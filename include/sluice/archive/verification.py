"""Whether the archive is whole: readable footers, chains without gaps, a true index."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sqlalchemy

from sluice.archive import chain, index, layout
from sluice.archive.chain import BrokenChain, Link
from sluice.archive.claim import Claims
from sluice.archive.file import ArchivedPartition
from sluice.archive.footer import Footer, UnreadableArchiveFile
from sluice.runtime.settings import Settings
from sluice.storage.hdfs import HdfsStore
from sluice.storage.postgres import engine


class NotArchived(LookupError):
    """The archive has nothing of the topic."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"the archive has no file of topic {topic!r}: `sluice topics list` has the names")


@dataclass(frozen=True)
class Verified:
    """A partition of one incarnation: its offsets [first, next), and what is wrong with it."""

    topic_id: str
    partition: int
    files: int
    records: int  # of Kafka
    lines: int  # in these records
    first: int
    next: int
    problem: str | None


def verify(settings: Settings, topic: str) -> Iterator[Verified]:
    """Read every footer of the topic, partition by partition. Raises NotArchived."""
    found = list(places(settings, topic))
    if not found:
        raise NotArchived(topic)
    for place, claims in found:
        yield _verified(engine(settings), place, claims)


def rebuild(settings: Settings, topic: str) -> Iterator[tuple[ArchivedPartition, int]]:
    """Make the topic's index again from the footers; yields each partition when it is done.

    With each partition comes its number of files.

    Raises NotArchived, and UnreadableArchiveFile before that partition's rows are touched.
    """
    found = list(places(settings, topic))
    if not found:
        raise NotArchived(topic)
    for place, claims in found:
        rows = [
            (claims.footer(file), file.length, claims.path(layout.first_of(file.name) or 0))
            for file in claims.files()
        ]
        index.replace(engine(settings), place, rows)
        yield place, len(rows)


def places(settings: Settings, topic: str) -> Iterator[tuple[ArchivedPartition, Claims]]:
    """Every partition that the archive has of the topic, in every incarnation."""
    store = HdfsStore.of(settings)
    for incarnation in store.list(f"{settings.hdfs.raw}/{topic}"):
        for partition in store.list(layout.topic_directory(settings, topic, incarnation.name)):
            place = ArchivedPartition(topic, incarnation.name, int(partition.name))
            directory = layout.partition_directory(settings, topic, place.topic_id, place.partition)
            yield place, Claims(store, directory)


def _verified(database: sqlalchemy.Engine, place: ArchivedPartition, claims: Claims) -> Verified:
    footers: list[tuple[Footer, int]] = []
    problem = None
    try:
        footers += ((claims.footer(file), file.length) for file in claims.files())
        links = [Link(footer.first, footer.next, claims.path(footer.first)) for footer, _ in footers]
        chain.check(place.topic, place.partition, links)
        problem = _index_problem(database, place, footers)
    except (BrokenChain, UnreadableArchiveFile) as error:
        problem = str(error)
    return Verified(
        topic_id=place.topic_id,
        partition=place.partition,
        files=len(footers),
        records=sum(footer.records for footer, _ in footers),
        lines=sum(footer.lines for footer, _ in footers),
        first=min((footer.first for footer, _ in footers), default=0),
        next=max((footer.next for footer, _ in footers), default=0),
        problem=problem,
    )


def _index_problem(
    database: sqlalchemy.Engine, place: ArchivedPartition, footers: list[tuple[Footer, int]]
) -> str | None:
    """Where the index differs from the files; a file that is just added may not be in it yet."""
    known = index.known(database, place)
    standing = {footer.first: (footer.next, length) for footer, length in footers}
    differing = sorted(
        first for first in known.keys() | standing.keys() if known.get(first) != standing.get(first)
    )
    if not differing:
        return None
    return (
        f"the index differs from the files of {place} at {len(differing)} offsets, first at {differing[0]}. "
        f"If this stays, make it again: sluice archive rebuild-index {place.topic}"
    )
