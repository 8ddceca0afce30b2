"""Whether the archive has all that it should have below a cut."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

import sqlalchemy as sa

from sluice.archive import index
from sluice.archive.file import ArchivedPartition
from sluice.storage.tables import archive_chains
from sluice.storage.tables.archive_chains import ChainSums
from sluice.storage.tables.schema import archive_files as files


@dataclass(frozen=True)
class Coverage:
    """What the archive's files below a cut should hold, and what they do hold."""

    expected: int  # offsets between each partition's first file and its cut
    offsets: int  # offsets in the files
    lines: int  # of the day, by the files' footers


def coverage(database: sa.Engine, topic: str, day: date, cut: Mapping[str, int]) -> Coverage:
    """How much of the topic is archived below the cut.

    Reads the files of the day, and one at each end of a chain. Only where a chain has a gap, which is damage,
    all its files below the cut are added up.
    """
    expected = offsets = 0
    with database.connect() as connection:
        connection.execution_options(isolation_level="REPEATABLE READ")  # the sums and the files of a moment
        chains = [each for each in archive_chains.sums(connection, topic) if each.first < _end(each, cut)]
        for _, own in itertools.groupby(chains, key=lambda each: each.partition):
            # A chain may begin anywhere: offsets are expected only from its first file on. That of a topic
            # that was made again ends where it ended.
            *older, newest = own
            for chain in older:
                expected += _below(connection, topic, chain, cut) - chain.first
            expected += _end(newest, cut) - newest.first
            offsets += sum(_offsets(connection, topic, chain, cut) for chain in (*older, newest))
        below = {int(partition): end for partition, end in cut.items()}
        return Coverage(expected, offsets, index.lines_of(connection, topic, day, below))


def _end(chain: ChainSums, cut: Mapping[str, int]) -> int:
    return cut.get(str(chain.partition), 0)


def _offsets(connection: sa.Connection, topic: str, chain: ChainSums, cut: Mapping[str, int]) -> int:
    """How many offsets the chain's files have that begin below the cut."""
    if chain.whole:
        return _below(connection, topic, chain, cut) - chain.first
    query = sa.select(sa.func.sum(files.c.next - files.c.first)).where(*_begun(topic, chain, cut))
    return int(connection.scalar(query) or 0)


def _below(connection: sa.Connection, topic: str, chain: ChainSums, cut: Mapping[str, int]) -> int:
    """Where the last of the chain's files ends that begin below the cut."""
    query = sa.select(files.c.next).where(*_begun(topic, chain, cut)).order_by(files.c.first.desc())
    return int(connection.execute(query.limit(1)).scalar_one())


def _begun(topic: str, chain: ChainSums, cut: Mapping[str, int]) -> tuple[sa.ColumnElement[bool], ...]:
    place = ArchivedPartition(topic, chain.topic_id, chain.partition)
    return *index.at(place), files.c.first < _end(chain, cut)
