"""What a query keeps of SERIES: a time, and conditions on dimensions.

A condition is tried once for each distinct value. Patterns run in Rust's linear-time engine, so none can
hang the reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sluice.results.query import Where
from sluice.runtime.arrays import Bools, Ints
from sluice.state.series import START, dimension, one
from sluice.tasks.spec import ActiveTask

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


class ChosenRows(NamedTuple):
    """The rows of SERIES that a query keeps: those of [begin, end) that pass."""

    begin: int
    end: int
    passing: Bools | None  # of the rows in [begin, end); None: all pass

    def of(self, rows: Rows) -> Rows:
        """These rows of a table that has a row for each of the series."""
        inside = rows.slice(self.begin, self.end - self.begin)
        return inside if self.passing is None else inside.filter(bits(self.passing))

    def numbers(self, values: Ints) -> Ints:
        """The same of an array."""
        inside = values[self.begin : self.end]
        return inside if self.passing is None else inside[self.passing]


class Begins(NamedTuple):
    """First row of each period of SERIES in order, then the row count; the starts of the periods."""

    rows: Ints
    starts: Ints  # ms


def begins_of(starts: Ints) -> Begins:
    """The periods of SERIES, in order. starts: the rows' periods (ms)."""
    if not len(starts):
        return Begins(np.zeros(1, np.int64), starts)
    rows = np.concatenate([[0], np.flatnonzero(starts[1:] != starts[:-1]) + 1, [len(starts)]])
    return Begins(rows, starts[rows[:-1]])


def bits(mask: Bools) -> pa.BooleanArray:
    """The same as `pa.array(mask)`, in a tenth of the time."""
    packed = pa.py_buffer(np.packbits(mask, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(mask), [None, packed])


class SeriesFilter:
    """The time and the conditions of a query; used for one answer."""

    def __init__(self, task: ActiveTask, since: int, until: int, where: Sequence[Where]) -> None:
        names = [each.name for each in task.spec.dimensions]
        self._since, self._until = since, until
        self._conditions = [_Tried(dimension(names.index(each.dimension)), each) for each in where]
        #: What names the conditions, whatever the time.
        self.key = "".join(each.model_dump_json() for each in where)

    def choose(self, rows: pa.Table, mask: Bools | None) -> ChosenRows:
        """The SERIES, in order and in one piece, that start in the time and pass the mask of all rows."""
        begins = one(rows.column(START)).to_numpy()
        begin, end = (int(at) for at in np.searchsorted(begins, (self._since, self._until)))
        if mask is None:
            return ChosenRows(begin, end, None)
        passing = mask[begin:end]
        return ChosenRows(begin, end, passing) if passing.any() else ChosenRows(begin, begin, None)

    def within(self, begins: Begins) -> slice:
        """Which of these periods start in the time."""
        starts = begins.starts
        if len(starts) and self._since <= starts[0] and starts[-1] < self._until:  # as mostly
            return slice(0, len(starts))
        first, last = np.searchsorted(starts, (self._since, self._until))
        return slice(int(first), int(last))

    def keep(self, rows: pa.Table) -> pa.Table:
        """The SERIES, in order and in one piece, that start in the time and pass every condition."""
        return self.choose(rows, self.mask(rows)).of(rows)

    def mask(self, rows: pa.Table) -> Bools | None:
        """Which SERIES pass every condition; None: all."""
        mask: Bools | None = None
        for condition in self._conditions:
            column = one(rows.column(condition.name))
            good = condition.passing(column)
            if not good.all():
                own: Bools = good.take(column.indices.to_numpy())
                mask = own if mask is None else mask & own
        return mask


class _Tried:
    """A condition, and what it said of the values that it met last: the next block mostly has the same."""

    def __init__(self, name: str, condition: Where) -> None:
        self.name = name
        self._condition = condition
        self._values: pa.Array | None = None
        self._passing: Bools = np.empty(0, bool)

    def passing(self, column: pa.Array) -> Bools:
        """Which of the column's distinct values pass."""
        values = column.dictionary
        if self._values is None or not self._values.equals(values):
            self._values, self._passing = values, passing(values, self._condition).to_numpy(False)
        return self._passing


def passing(values: pa.Array, condition: Where) -> pa.Array:
    """Which of these texts pass the condition."""
    if condition.values is not None:
        return pc.is_in(values, pa.array(condition.values, pa.string()))
    if condition.prefix is not None:
        return pc.starts_with(values, condition.prefix)
    found = pl.Series(values, dtype=pl.String).str.contains(condition.pattern or "", strict=True)
    return found.to_arrow()
