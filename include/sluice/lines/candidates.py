"""Which lines of a batch belong to a result, before their doubles are removed.

The engine says which lines the task counts (`engine.count.chosen`), and the readers' own filter says which
series pass. So nothing here knows how a line is cut, filtered or put into a period.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.batch.day_lines import DAY_LINES, within
from sluice.engine.count import ChosenLines, chosen
from sluice.engine.plan import EnginePlan
from sluice.engine.rowkey import split_keys, unescape_column
from sluice.lines.basis import Basis
from sluice.lines.query import LinesQuery
from sluice.results.filters import SeriesFilter
from sluice.runtime.arrays import Bools, Ints
from sluice.state.series import START, dimension

#: A line of the period, whose bytes and time make it one of the result; `end`: where it ends in its file.
CANDIDATES = pa.schema([*DAY_LINES, pa.field("end", pa.int64(), nullable=False)])


@dataclass(frozen=True)
class Candidates:
    """Finds the lines of one result; may be shared between threads."""

    query: LinesQuery
    basis: Basis
    plan: EnginePlan  # of the task version alone, over all offsets

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """LINE_SCHEMA to CANDIDATES, copies included, in the same order.

        A copy counts for what it is a copy of even if the version did not count its place: so places are
        looked at later, when it is known which copy came first.
        """
        basis = self.basis
        lines, ends = within(batch, basis.topic, self.plan.topic, basis.start, basis.end)
        known = basis.known(*(lines.column(n).to_numpy() for n in ("event_ms", "partition", "offset")))
        lines, ends = _only(lines, ends, known)
        if len(lines):
            found = chosen(lines, self.plan)
            lines, ends = _only(lines, ends, self._wanted(found, len(lines)))
        return pa.RecordBatch.from_arrays([*lines.columns, pa.array(ends)], schema=CANDIDATES)

    def _wanted(self, found: ChosenLines, lines: int) -> Bools:
        rows = found.rows
        if self.query.where and len(rows):
            rows = rows[self._passing(found)]
        wanted = np.zeros(lines, bool)
        wanted[rows] = True
        if self.query.measured is not None:
            measured = np.zeros(lines, bool)
            measured[found.rows] = found.measured
            wanted &= measured == self.query.measured
        return wanted

    def _passing(self, found: ChosenLines) -> Ints:
        """Which of the chosen lines are of series that pass, as SERIES say it of results."""
        parts = split_keys(found.key, len(self.basis.task.spec.dimensions))
        values = {dimension(n): unescape_column(part).dictionary_encode() for n, part in enumerate(parts)}
        at = pa.array(np.arange(len(found.rows)))
        rows = pa.table({START: found.period_start, **values, "at": at})
        start = self.basis.start
        rows = rows.filter(pc.equal(rows.column(START), start)).combine_chunks()
        kept = SeriesFilter(self.basis.task, start, start + 1, self.query.where).keep(rows)
        numbers: Ints = kept.column("at").to_numpy()
        return numbers


def _only(lines: pa.RecordBatch, ends: Ints, which: Bools) -> tuple[pa.RecordBatch, Ints]:
    return (lines, ends) if which.all() else (lines.filter(pa.array(which)), ends[which])
