"""Which files of a partition are merged into one: neighbours that are closed, up to a size, within bounds."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from sluice.runtime.days import DAY_MS, begin_ms
from sluice.runtime.positions import era_of
from sluice.storage.hdfs import HdfsFile


@dataclass(frozen=True)
class ChainedFile:
    """A file of a chain that has these records of Kafka."""

    file: HdfsFile
    first: int
    next: int
    records: int


def closed_before(today: date) -> int:
    """Files written before this (ms since the epoch) are closed: a whole day (UTC) lies between.

    A night that takes its cut among them has long written it down, and a writer that still believes in its
    position looks at the directory before it publishes (`claim.LOOK_AGAIN_SECONDS`).
    """
    return begin_ms(today) - DAY_MS


def runs(
    files: Sequence[ChainedFile], *, closed: int, cuts: Collection[int], most_bytes: int
) -> Iterator[list[ChainedFile]]:
    """Runs of neighbours, each of at least two, that have at most so many bytes together.

    files: those of the chain, in order. closed: see `closed_before`. cuts: positions that stay the ends of
    files, because nights were computed up to them. A file without records stays as it is, because it says why
    there are none. So does one of at least half the size, which would be written again for little.
    """
    run: list[ChainedFile] = []
    left = 0
    for each in files:
        mergeable = each.records and each.file.modified < closed and each.file.length * 2 < most_bytes
        if not (mergeable and run and _follows(run[-1], each, cuts) and each.file.length <= left):
            yield from [run] if len(run) > 1 else []
            run, left = [], most_bytes
        if mergeable:
            run.append(each)
            left -= each.file.length
    if len(run) > 1:
        yield run


def _follows(before: ChainedFile, each: ChainedFile, cuts: Collection[int]) -> bool:
    same = before.next == each.first and era_of(before.first) == era_of(each.first)
    return same and each.first not in cuts
