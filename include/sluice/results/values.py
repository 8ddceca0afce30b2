"""Values in place of accumulators, as columns; those of SERIES that never change are kept."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.metrics import accumulator_columns, metric
from sluice.results.filters import Filter
from sluice.results.query import is_list
from sluice.runtime.arrays import Bools, Ints
from sluice.runtime.kept import Kept
from sluice.state.series import START, one

#: Metrics whose values are always integers.
WHOLE = ("count", "missing")
#: Values that are kept. A million of them have 8 MiB.
VALUES_BYTES = 128 << 20

#: A metric's values, and their errors if it is sketched; null where a series has no value.
Columns = tuple[pa.Array, ...]


class Values:
    """The values of final blocks and of open periods, by the names of those. For several threads."""

    def __init__(self, most: int = VALUES_BYTES) -> None:
        self._kept: Kept[tuple[str, str], Columns] = Kept(_bytes, most)

    def of(self, name: str, rows: pa.Table, metric_name: str) -> Columns:
        """The metric's values for the SERIES that have this name for ever."""
        return self._kept.made((name, metric_name), partial(columns_of, rows, metric_name))

    def firsts(self, name: str, rows: pa.Table) -> Ints:
        """The number of the first row of each period of these SERIES."""
        (found,) = self._kept.made((name, _FIRSTS), lambda: (pa.array(firsts(rows)),))
        numbers: Ints = found.to_numpy()
        return numbers

    def mask(self, name: str, rows: pa.Table, only: Filter) -> Bools | None:
        """Which of these SERIES pass the conditions, whatever the time; None: all."""

        def make() -> Columns:
            mask = only.mask(rows)
            return () if mask is None else (pa.array(mask.view(np.uint8)),)

        if not only.key:
            return None
        found = self._kept.made((name, only.key), make)
        return found[0].to_numpy().view(np.bool_) if found else None


def firsts(rows: pa.Table) -> Ints:
    """The number of the first row of each period of SERIES, which are in order and in one piece."""
    starts = one(rows.column(START)).to_numpy()
    if not len(starts):
        return np.empty(0, np.int64)
    return np.append(0, np.flatnonzero(starts[1:] != starts[:-1]) + 1)


def columns_of(rows: pa.Table, name: str) -> Columns:
    """The metric's values for SERIES in one piece."""
    stored = {each: one(rows.column(each)) for each in accumulator_columns() if each in rows.column_names}
    made = metric(name)
    found = made.results(stored)
    missing = np.isnan(found.values)
    mask = missing if missing.any() else None
    if found.texts is not None:
        values = found.texts if mask is None else pc.if_else(pa.array(mask), _NO_TEXT, found.texts)
    elif name in WHOLE and found.integers is not None:
        values = pa.array(found.integers, mask=mask)
    else:
        values = pa.array(found.values, mask=mask).cast(value_type(name))
    if not made.sketched:
        return (values,)
    errors = np.zeros(len(missing)) if found.errors is None else found.errors
    return values, pa.array(errors, mask=mask)


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


_FIRSTS = ""  # no metric has this name
_NO_TEXT = pa.scalar(None, pa.string())
