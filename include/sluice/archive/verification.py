"""Whether the archive is whole: readable files, chains without gaps, a true index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import sqlalchemy

from sluice.archive import chain, index, layout
from sluice.archive.chain import GapInArchive, Link
from sluice.archive.claim import Claims
from sluice.archive.file import ArchivedPartition, check_contents
from sluice.archive.footer import Footer, UnreadableArchiveFile
from sluice.runtime.settings import Settings
from sluice.storage.hdfs import HdfsError, HdfsStore, HdfsUnavailable
from sluice.storage.postgres import engine


class NotArchived(LookupError):
    """The archive has nothing of the topic."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"the archive has no file of topic {topic!r}: `sluice topics list` has the names")


@dataclass(frozen=True, order=True)
class Lacking:
    """Offsets [first, next) that no sound file has. damaged: whether a file stands in their place."""

    first: int
    next: int
    damaged: bool


@dataclass(frozen=True)
class Verified:
    """A partition of one incarnation: its offsets [first, next), and each thing that is wrong with it."""

    topic_id: str
    partition: int
    files: int
    records: int  # of Kafka
    lines: int  # in these records
    first: int
    next: int
    problems: tuple[str, ...]
    lacking: tuple[Lacking, ...]


def verify(settings: Settings, topic: str, *, deep: bool = False) -> Iterator[Verified]:
    """Read every footer of the topic, or with `deep` every file as a whole, partition by partition.

    Raises NotArchived.
    """
    for place, claims in places(settings, topic):
        yield checked(engine(settings), place, claims, deep=deep)


def rebuild(settings: Settings, topic: str) -> Iterator[tuple[ArchivedPartition, int]]:
    """Make the topic's index again from the footers; yields each partition when it is done.

    With each partition comes its number of files.

    Raises NotArchived, and UnreadableArchiveFile before that partition's rows are touched.
    """
    for place, claims in places(settings, topic):
        rows = [
            (claims.footer(file), file.length, claims.path(layout.first_of(file.name) or 0))
            for file in claims.files()
        ]
        index.replace(engine(settings), place, rows)
        yield place, len(rows)


def places(settings: Settings, topic: str) -> list[tuple[ArchivedPartition, Claims]]:
    """Every partition that the archive has of the topic, in every incarnation. Raises NotArchived."""
    found = list(_places(settings, topic))
    if not found:
        raise NotArchived(topic)
    return found


def _places(settings: Settings, topic: str) -> Iterator[tuple[ArchivedPartition, Claims]]:
    store = HdfsStore.of(settings)
    for incarnation in store.list(f"{settings.hdfs.raw}/{topic}"):
        for partition in store.list(layout.topic_directory(settings, topic, incarnation.name)):
            place = ArchivedPartition(topic, incarnation.name, int(partition.name))
            directory = layout.partition_directory(settings, topic, place.topic_id, place.partition)
            yield place, Claims(store, directory)


def checked(database: sqlalchemy.Engine, place: ArchivedPartition, claims: Claims, *, deep: bool) -> Verified:
    """What is there of a partition, and what is wrong with it. Raises HdfsUnavailable."""
    indexed = index.known(database, place)
    standing = {layout.first_of(file.name) or 0: file for file in claims.files()}
    footers: dict[int, Footer] = {}
    problems: dict[int, str] = {}
    for first, file in standing.items():
        try:
            footers[first] = claims.footer(file)
            if deep:
                check_contents(claims.path(first), claims.contents(file), footers[first])
        except (UnreadableArchiveFile, HdfsError, HdfsUnavailable) as error:  # a lost block reads as the last
            problems[first] = str(error)
    for first in indexed.keys() - standing.keys():
        problems[first] = f"{claims.path(first)} is gone, with offsets {first} to {indexed[first][0] - 1}"
    # A footer, or else the index, says how far a file went: then its neighbours are at no fault.
    ends = {first: footer.next for first, footer in footers.items()}
    ends |= {first: indexed[first][0] for first in problems if first not in ends and first in indexed}
    links = [Link(first, following, claims.path(first)) for first, following in ends.items()]
    broken = list(chain.faults(place.topic, place.partition, links))
    lacking = [Lacking(first, ends[first], first in standing) for first in problems if first in ends]
    lacking += [Lacking(*gap.offsets, damaged=False) for gap in broken if isinstance(gap, GapInArchive)]
    return Verified(
        topic_id=place.topic_id,
        partition=place.partition,
        files=len(footers),
        records=sum(footer.records for footer in footers.values()),
        lines=sum(footer.lines for footer in footers.values()),
        first=min(footers, default=0),
        next=max((footer.next for footer in footers.values()), default=0),
        problems=(
            *(problems[first] for first in sorted(problems)),
            *map(str, broken),
            *_index_problem(place, indexed, {at: (f.next, standing[at].length) for at, f in footers.items()}),
        ),
        lacking=tuple(sorted(lacking)),
    )


def _index_problem(
    place: ArchivedPartition, indexed: Mapping[int, tuple[int, int]], found: Mapping[int, tuple[int, int]]
) -> Iterator[str]:
    """Where the index differs from the files; one that was just added may not be in it yet."""
    differing = sorted(first for first, said in found.items() if indexed.get(first) != said)
    if differing:
        yield (
            f"the index differs from the files of {place} at {len(differing)} offsets, first at "
            f"{differing[0]}. If this stays, make it again: sluice archive rebuild-index {place.topic}"
        )
