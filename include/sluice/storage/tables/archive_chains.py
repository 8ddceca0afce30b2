"""The sums over each chain of archive files, and where it begins and ends: a few rows, however old it is.

A chain is what one incarnation of a topic has of a partition. The sums are kept by triggers of
`archive_files` (migration 0033), in the transaction that changes the rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from sluice.storage.tables import schema

_T, _F = schema.archive_chains.c, schema.archive_files.c
_OWN = (_F.topic == _T.topic, _F.topic_id == _T.topic_id, _F.partition == _T.partition)
_FIRST = sa.select(_F.first).where(*_OWN).order_by(_F.first).limit(1).correlate(schema.archive_chains)
_NEXT = sa.select(_F.next).where(*_OWN).order_by(_F.first.desc()).limit(1).correlate(schema.archive_chains)


@dataclass(frozen=True)
class ChainSums:
    """The files [first, next) of a chain. offsets: how many they have together."""

    topic_id: str
    partition: int
    records: int  # of Kafka
    lines: int
    offsets: int
    first: int
    next: int

    @property
    def whole(self) -> bool:
        """Whether no file is missing between the first one and the last one."""
        return self.offsets == self.next - self.first


def sums(connection: sa.Connection, topic: str) -> list[ChainSums]:
    """All chains of the topic that have files, in order of their partitions and beginnings."""
    query = sa.select(
        *(_T.topic_id, _T.partition, _T.records, _T.lines, _T.offsets),
        _FIRST.scalar_subquery().label("first"),
        _NEXT.scalar_subquery().label("next"),
    ).where(_T.topic == topic, _T.files > 0)
    found = [ChainSums(**row._mapping) for row in connection.execute(query)]
    return sorted(found, key=lambda each: (each.partition, each.first, each.next))


def ends(chains: Iterable[ChainSums]) -> dict[int, int]:
    """The position after the last file, by partition."""
    found: dict[int, int] = {}
    for each in chains:
        found[each.partition] = max(each.next, found.get(each.partition, 0))
    return found
