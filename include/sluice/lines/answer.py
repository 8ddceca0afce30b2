"""The lines behind a result: `find` answers a `LinesQuery` with lines, in bounded memory.

1. The result is read as every reader reads it, and with it its basis: the version, and the commit or the cut
   up to which lines had come.
2. The archive's files that can have lines of the period, and what of Kafka they do not cover yet, are read in
   the order in which their lines arrived. The engine says which lines the task counts.
3. Of each line's copies the first stays; it counts if the version counted its place, and if it is not barred
   (`batch.barred`).

So the lines are as many as the result says. If they are not, `LinesAnswer.doubts` says what is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sluice.batch.barred import among
from sluice.engine.plan import EnginePlan
from sluice.lines.basis import Basis, basis
from sluice.lines.candidates import Candidates
from sluice.lines.copies import ARRIVED, FirstCopies
from sluice.lines.query import LinesQuery
from sluice.lines.reading import read_ahead
from sluice.lines.sources import Sources
from sluice.results.layers import Layers, StoredLayers
from sluice.runtime.arrays import Bools, Ints
from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.tasks.topics import TopicStore

#: Lines that wait for older copies before they are looked at together.
SETTLED_LINES = 65_536

#: A line behind a result, as people and programs get it.
LINES = pa.schema(
    [
        ("event_time", pa.timestamp("ms", "UTC")),
        ("host", pa.string()),
        ("src_file", pa.string()),
        ("src_offset", pa.int64()),  # of the line's first byte in its file
        ("kafka_partition", pa.int32()),
        ("kafka_offset", pa.int64()),
        ("line_in_record", pa.int32()),
        ("arrival", pa.timestamp("ms", "UTC")),
        ("line", pa.binary()),
    ]
)


class LinePosition(NamedTuple):
    """Where a line is in the order of an answer."""

    arrival: int  # ms
    offset: int
    line_in_record: int
    partition: int


class TookTooLong(RuntimeError):
    """The lines were not found in the time that the caller gives."""

    def __init__(self, seconds: float, files: int, done: int) -> None:
        super().__init__(
            f"the lines were not found within {seconds:.0f} s ({done} of {files} files were read): ask for a "
            "shorter period, or use `sluice lines`, which takes its time"
        )


@dataclass(frozen=True)
class Progress:
    """How far a search is."""

    done: int  # files
    files: int
    found: int  # lines


#: Told after each portion of files. It may raise to end the search.
Told = Callable[[Progress], object]


def find(
    settings: Settings,
    query: LinesQuery,
    *,
    layers: Layers | None = None,
    commit: int | None = None,
    told: Told | None = None,
    seconds: float | None = None,
) -> LinesAnswer:
    """The lines behind a result, as it is now; of an open period as of `commit`, if one is given.

    The answer raises TookTooLong after `seconds`. Raises UnknownTask, UnknownVersion, BadQuery,
    ResultsDropped, and what the stores raise while they are away.
    """
    layers = layers or StoredLayers(settings)
    task = layers.task(query.task, query.version)
    query.check(task)
    found = basis(settings, layers, query, task, commit)
    spec = TopicStore(engine(settings)).get(task.spec.topic)
    candidates = Candidates(query, found, EnginePlan.of([task], settings.limits, spec))
    sources = None if found.result.state is None else Sources.of(settings, found)
    return LinesAnswer(candidates, sources, told or (lambda _: None), seconds)


class LinesAnswer:
    """The lines of one result; it can be read once."""

    schema = LINES

    def __init__(
        self,
        candidates: Candidates,
        sources: Sources | None,
        told: Told,
        seconds: float | None = None,
    ) -> None:
        self.basis: Basis = candidates.basis
        self.found = 0  # lines so far
        self.complete = False  # whether these are all
        self._candidates, self._sources = candidates, sources
        self._told, self._seconds = told, seconds
        self._deadline = None if seconds is None else monotonic() + seconds
        self._copies = FirstCopies()

    def batches(
        self, limit: int | None = None, after: LinePosition | None = None
    ) -> Iterator[pa.RecordBatch]:
        """LINES in the order of their arrival; at most `limit`, from behind the line at `after` on."""
        for rows in self._placed(limit, after):
            yield from shown(rows).to_batches()

    def pages(
        self, limit: int, after: LinePosition | None = None
    ) -> Iterator[tuple[pa.RecordBatch, list[LinePosition]]]:
        """The same with each line's place."""
        for rows in self._placed(limit, after):
            for batch, own in zip(shown(rows).to_batches(), rows.to_batches(), strict=True):
                yield batch, places(own)

    @property
    def files(self) -> int:
        """How many files of the archive can have such lines."""
        return 0 if self._sources is None else len(self._sources.files)

    def count(self) -> int:
        """How many lines there are."""
        for _ in self._placed(None, None):
            pass
        return self.found

    def doubts(self) -> list[str]:
        """Why there may be fewer lines than the result says; empty if all of them were found."""
        counted = self.basis.result.counted
        if not self.complete or counted is None or counted == self.found:
            return []
        gone = [] if self._sources is None else self._sources.gone
        why = "; ".join(gone) or "a commit or a backfill may have changed it meanwhile: ask again"
        return [f"the result counts {counted} lines, and {self.found} were found: {why}"]

    def _placed(self, limit: int | None, after: LinePosition | None) -> Iterator[pa.Table]:
        """CANDIDATES that are the result's lines."""
        left = limit
        for rows in self._lines(SETTLED_LINES if limit is None else min(limit, SETTLED_LINES)):
            self.found += rows.num_rows
            kept = rows if after is None else rows.filter(pa.array(_behind(rows, after)))
            kept = kept if left is None else kept.slice(0, left)
            left = None if left is None else left - kept.num_rows
            if kept.num_rows:
                yield kept.combine_chunks()
            if left == 0:
                return
        self.complete = True

    def _lines(self, at_least: int) -> Iterator[pa.Table]:
        """Each line of the result once; about `at_least` at a time."""
        if self._sources is None:
            return
        for batch in self._sources.in_kafka():
            self._copies.add(self._candidates.of(batch))
            self._check(0)
        files = self._sources.files
        number = 0
        for some, found in read_ahead(files, self._sources.in_file, self._candidates.of):
            for batch in found:
                self._copies.add(batch)
            number += len(some)
            self._check(number)
            if number < len(files) and self._copies.waiting >= at_least:
                yield self._owned(self._copies.settled(files[number].arrival_min))
        yield self._owned(self._copies.settled())

    def _check(self, done: int) -> None:
        self._told(Progress(done, self.files, self.found))
        if self._deadline is not None and monotonic() > self._deadline:
            raise TookTooLong(self._seconds or 0, self.files, done)

    def _owned(self, rows: pa.Table) -> pa.Table:
        """Those first copies that the version counted where they are."""
        event, partition, offset = (rows.column(n).to_numpy() for n in ("event_ms", "partition", "offset"))
        own = self.basis.counts(event, partition, offset)
        rows = rows if own.all() else rows.filter(pa.array(own))
        gone = among(rows, self.basis.barred)
        return rows.filter(pa.array(~gone)) if gone.any() else rows


def shown(rows: pa.Table) -> pa.Table:
    """CANDIDATES as LINES."""
    given = {
        "event_time": rows.column("event_ms"),
        "kafka_partition": rows.column("partition"),
        "kafka_offset": rows.column("offset"),
        "line_in_record": rows.column("line_in_record").fill_null(0),
    }
    columns = [given[f.name] if f.name in given else rows.column(f.name) for f in LINES]
    return pa.table([column.cast(f.type) for column, f in zip(columns, LINES, strict=True)], schema=LINES)


def places(rows: pa.RecordBatch) -> list[LinePosition]:
    """The place of each line."""
    return [
        LinePosition(*row)
        for row in zip(*(rows.column(n).fill_null(0).to_pylist() for n in ARRIVED), strict=True)
    ]


def _behind(rows: pa.Table, after: LinePosition) -> Bools:
    """Which lines come after that place."""
    behind, same = np.zeros(rows.num_rows, bool), np.ones(rows.num_rows, bool)
    for name, value in zip(ARRIVED, after, strict=True):
        numbers: Ints = rows.column(name).fill_null(0).to_numpy()
        behind |= same & (numbers > value)
        same &= numbers == value
    return behind


__all__ = ["LINES", "LinePosition", "LinesAnswer", "Progress", "TookTooLong", "find"]
