"""Whether the archive is whole: readable files, chains without gaps, a true index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import sqlalchemy

from sluice.archive import chain, indexing, layout
from sluice.archive.chain import GapInArchive, Link
from sluice.archive.claim import Claims
from sluice.archive.contents import check_contents
from sluice.archive.file import ArchivedPartition
from sluice.archive.footer import Footer, UnreadableArchiveFile
from sluice.archive.indexing import IndexedLink
from sluice.archive.standing import StandingFiles
from sluice.runtime.settings import Settings
from sluice.storage.hdfs import HdfsError, HdfsFile, HdfsStore, HdfsUnavailable
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
    redacted: int  # of the lines: those that were erased
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
        yield place, indexing.rebuild(engine(settings), claims, place)


def archived_topics(settings: Settings) -> list[str]:
    """The topics that the archive has a directory of."""
    return [each.name for each in HdfsStore.of(settings).list(settings.hdfs.raw) if each.directory]


def places(settings: Settings, topic: str) -> list[tuple[ArchivedPartition, Claims]]:
    """Every partition that the archive has of the topic, in every incarnation. Raises NotArchived."""
    found = list(found_places(settings, topic))
    if not found:
        raise NotArchived(topic)
    return found


def found_places(settings: Settings, topic: str) -> Iterator[tuple[ArchivedPartition, Claims]]:
    """The same; none if there is none."""
    store = HdfsStore.of(settings)
    for incarnation in store.list(f"{settings.hdfs.raw}/{topic}"):
        for partition in store.list(layout.topic_directory(settings, topic, incarnation.name)):
            place = ArchivedPartition(topic, incarnation.name, int(partition.name))
            directory = layout.partition_directory(settings, topic, place.topic_id, place.partition)
            yield place, Claims(store, directory)


def checked(database: sqlalchemy.Engine, place: ArchivedPartition, claims: Claims, *, deep: bool) -> Verified:
    """What is there of a partition, and what is wrong with it. Raises HdfsUnavailable."""
    indexed = indexing.rows_of(database, place)
    with database.connect() as connection:
        begins = indexing.begins(connection, place)
    found = claims.standing().since(begins)
    footers, problems = _footers(claims, found, deep=deep)
    for first, row in indexed.items():
        if first not in found.files and found.over(first) is None:
            problems[first] = f"{row.path} is gone, with offsets {first} to {row.next - 1}"
    # A footer, or else the name or the index, says how far a file went: then its neighbours are at no fault.
    ends = {first: footer.next for first, footer in footers.items()}
    for first in problems.keys() - ends.keys():
        named = layout.next_of(found.files[first].name) if first in found.files else None
        if named is not None or first in indexed:
            ends[first] = named or indexed[first].next
    paths = {first: claims.named(file.name) for first, file in found.files.items()}
    links = [Link(first, end, paths.get(first) or indexed[first].path) for first, end in ends.items()]
    broken = list(chain.faults(place.topic, place.partition, links))
    lacking = [Lacking(first, ends[first], first in found.files) for first in problems if first in ends]
    lacking += [Lacking(*gap.offsets, damaged=False) for gap in broken if isinstance(gap, GapInArchive)]
    return Verified(
        topic_id=place.topic_id,
        partition=place.partition,
        files=len(footers),
        records=sum(footer.records for footer in footers.values()),
        lines=sum(footer.lines for footer in footers.values()),
        redacted=sum(footer.redacted for footer in footers.values()),
        first=min(footers, default=0),
        next=max((footer.next for footer in footers.values()), default=0),
        problems=(
            *(problems[first] for first in sorted(problems)),
            *map(str, broken),
            *_index_problem(place, indexed, found, footers),
        ),
        lacking=tuple(sorted(lacking)),
    )


def _footers(claims: Claims, found: StandingFiles, *, deep: bool) -> tuple[dict[int, Footer], dict[int, str]]:
    """The footers of the files that stand, and what is wrong with files, by first offset."""
    footers: dict[int, Footer] = {}
    problems: dict[int, str] = {}
    for first, file in found.files.items():
        try:
            footers[first] = claims.footer(file)
            if deep:
                check_contents(claims.named(file.name), claims.opened(file), footers[first])
        except (UnreadableArchiveFile, HdfsError, HdfsUnavailable) as error:  # a lost block reads as the last
            problems[first] = str(error)
    return footers, problems


def _index_problem(
    place: ArchivedPartition,
    indexed: Mapping[int, IndexedLink],
    found: StandingFiles,
    footers: Mapping[int, Footer],
) -> Iterator[str]:
    """Where the index differs from the files; one that was just added may not be in it yet."""
    differing = sorted(
        first
        for first, footer in footers.items()
        if not _same(indexed.get(first), footer, found.files[first])
        and not _still_as_before(indexed, found, footer)
    )
    if differing:
        yield (
            f"the index differs from the files of {place} at {len(differing)} offsets, first at "
            f"{differing[0]}. If this stays, make it again: sluice archive rebuild-index {place.topic}"
        )


def _same(row: IndexedLink | None, footer: Footer, file: HdfsFile) -> bool:
    """Whether the row is this file's."""
    said = None if row is None else (row.next, row.bytes, layout.name_in(row.path))
    return said == (footer.next, file.length, file.name)


def _still_as_before(indexed: Mapping[int, IndexedLink], found: StandingFiles, merged: Footer) -> bool:
    """Whether the index has, of a merged file's offsets, the files that it replaces, which are there."""
    there = {each.file.name: each.file.length for each in found.replaced}
    at = merged.first
    while at < merged.next and (row := indexed.get(at)) and there.get(layout.name_in(row.path)) == row.bytes:
        at = row.next
    return at == merged.next
