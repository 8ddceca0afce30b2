"""Values in place of accumulators, as columns; what is made of SERIES that never change is kept.

So the second answer with the same conditions is cut out of the columns of the first, and copies nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

import numpy as np
import pyarrow as pa

from sluice.metrics import accumulator_columns, metric
from sluice.results.filters import Begins, SeriesFilter, begins_of, bits
from sluice.results.query import is_list
from sluice.runtime.arrays import Bools
from sluice.runtime.lru_cache import LruCache
from sluice.state.series import START, one

#: Metrics whose values are always integers.
WHOLE = ("count", "missing")
#: What is kept. A million values have 8 MiB.
VALUES_BYTES = 224 << 20

#: A metric's values, and their errors if it is sketched; null where a series has no value.
Columns = tuple[pa.Array, ...]


class StateColumns:
    """The columns made of final blocks and of open periods, by the names of those. For several threads."""

    def __init__(self, most: int = VALUES_BYTES) -> None:
        self._kept: LruCache[tuple[str, str, str], Columns] = LruCache(_bytes, most)

    def passing(self, name: str, rows: pa.Table, only: SeriesFilter) -> Passing:
        """The SERIES `rows` that pass the conditions, whatever the time; `name` is theirs for ever."""
        return Passing(self._kept, name, rows, only)


class Passing:
    """SERIES with a name that pass the conditions: what is made of them is kept, the rest is theirs."""

    def __init__(
        self, kept: LruCache[tuple[str, str, str], Columns], name: str, rows: pa.Table, only: SeriesFilter
    ) -> None:
        self._kept, self._name, self._rows = kept, name, rows
        self._key = only.key
        found = self._made(_MASK, partial(_mask, rows, only)) if only.key else ()
        self.mask: pa.BooleanArray | None = found[0] if found else None  # None: all pass
        if not found:
            self._key = ""

    @property
    def begins(self) -> Begins:
        """The periods of those that pass."""

        def make() -> Columns:
            return tuple(map(pa.array, begins_of(self.stored(START).to_numpy())))

        return Begins(*(each.to_numpy() for each in self._made(_BEGINS, make)))

    def stored(self, column: str) -> pa.Array:
        """A column of the SERIES; nothing is copied unless there are conditions."""
        whole, mask = one(self._rows.column(column)), self.mask
        return whole if mask is None else self._made(_STORED + column, lambda: (whole.filter(mask),))[0]

    def values(self, metric_name: str) -> Columns:
        """The metric's values."""
        whole, mask = partial(columns_of, self._rows, metric_name), self.mask
        if mask is None:
            return self._made(metric_name, whole)

        def filtered() -> Columns:
            return tuple(each.filter(mask) for each in self._kept.made((self._name, "", metric_name), whole))

        return self._made(metric_name, filtered)

    def _made(self, what: str, make: Callable[[], Columns]) -> Columns:
        return self._kept.made((self._name, self._key, what), make)


def _mask(rows: pa.Table, only: SeriesFilter) -> Columns:
    mask = only.mask(rows)
    return () if mask is None else (bits(mask),)


def columns_of(rows: pa.Table, name: str) -> Columns:
    """The metric's values for SERIES in one piece."""
    stored = {each: one(rows.column(each)) for each in accumulator_columns() if each in rows.column_names}
    made = metric(name)
    found = made.results(stored)
    values = found.lists
    if values is None and name in WHOLE and found.integers is not None:
        values = pa.array(found.integers, mask=found.missing)
    elif values is None:
        values = found.numbers.cast(value_type(name))
    if not made.sketched:
        return (values,)
    errors = np.zeros(len(found.values)) if found.errors is None else found.errors
    return values, pa.array(errors, mask=found.missing)


def value_type(name: str) -> pa.DataType:
    """The type of a metric's values; a list is JSON."""
    return pa.int64() if name in WHOLE else pa.string() if is_list(name) else pa.float64()


def with_some(columns: Sequence[Columns]) -> Bools | None:
    """Which rows have a value of some of these metrics; None: all have."""
    if any(values.null_count == 0 for values, *_ in columns):
        return None
    there: Bools = reduce(np.logical_or, (values.is_valid().to_numpy(False) for values, *_ in columns))
    return there


def _bytes(columns: Columns) -> int:
    return sum(each.nbytes for each in columns)


_MASK, _BEGINS, _STORED = "/mask", "/begins", "/"  # no metric has such a name
