"""The accumulators that the metrics share."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sluice.metrics.base import OVERFLOW, Accumulator, Batch, Columns, Results
from sluice.metrics.packed import Damaged, binary, words
from sluice.runtime.arrays import Bools, Floats, Ints

#: An integer sum that reaches this moves to the digits of the fractions, so that int64 can never overflow.
SPILL = OVERFLOW
_EXACT_FLOAT = 1 << 53
_LOW = np.int64(0xFFFFFFFF)
_NONE, _NOWHERE = np.empty(0), np.empty(0, np.int64)


def sum_integers(values: Ints, groups: Ints, size: int) -> tuple[Ints, Floats, Ints]:
    """Exact sums by group, and floats with their groups in place of sums that reach `SPILL`.

    Such a sum is 0, and the floats add up to it exactly.
    """
    if len(values) == 0:
        return np.zeros(size, np.int64), _NONE, _NOWHERE
    bound = max(abs(int(values.min())), abs(int(values.max()))) * len(values)
    if bound < _EXACT_FLOAT:  # bincount adds in float64: exact below 2^53, and the fastest of the three
        return np.bincount(groups, weights=values, minlength=size).astype(np.int64), _NONE, _NOWHERE
    if bound < SPILL:
        total = np.zeros(size, np.int64)
        np.add.at(total, groups, values)
        return total, _NONE, _NOWHERE
    high, low = np.zeros(size, np.int64), np.zeros(size, np.int64)
    np.add.at(high, groups, values >> 32)
    np.add.at(low, groups, values & _LOW)
    high += low >> 32
    low &= _LOW
    over = np.flatnonzero((high >= SPILL >> 32) | (high < -(SPILL >> 32)))
    spilled = np.concatenate([high[over] * 2.0**32, low[over].astype(np.float64)])
    high[over] = low[over] = 0
    return (high << 32) + low, spilled, np.concatenate([over, over])


class _Counter(Accumulator):
    """A sum of non-negative integers in one column."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.columns = {name: pa.int64()}

    def merge(self, columns: Columns, groups: Ints, size: int) -> dict[str, pa.Array]:
        values = columns[self.name].fill_null(0).to_numpy(zero_copy_only=False)
        total, *_ = sum_integers(values, groups, size)
        return {self.name: pa.array(total)}


class Lines(_Counter):
    """How many lines passed the filters."""

    def add(self, batch: Batch) -> dict[str, pa.Array]:
        if (totals := batch.totals) is not None:
            return {self.name: pa.array(totals.lines)}
        return {self.name: pa.array(np.bincount(batch.groups, minlength=batch.size).astype(np.int64))}


class Measured(_Counter):
    """How many of those lines had a measure."""

    def add(self, batch: Batch) -> dict[str, pa.Array]:
        if (totals := batch.totals) is not None:
            return {self.name: pa.array(totals.measured)}
        measured = batch.measured
        counts: npt.NDArray[Any] = (
            np.bincount(batch.groups, minlength=batch.size)
            if measured.complete
            else batch.sums(measured.present)
        )
        return {self.name: pa.array(counts.astype(np.int64))}


class Sum(Accumulator):
    """The exact sum of the measures.

    Integral measures are in `isum`, the others and what spilled in `fractions` (`kernels.exact`). `fractions`
    is null while every measure was integral and nothing spilled: then the sum is an integer.
    """

    name = "sum"

    def __init__(self) -> None:
        self.columns = {"isum": pa.int64(), "fractions": pa.binary()}

    def add(self, batch: Batch) -> dict[str, pa.Array]:
        numbers, size = batch.numbers, batch.size
        spilled, owners = _NONE, _NOWHERE
        if batch.totals is not None:
            isum = batch.totals.integers
        elif numbers.largest * len(batch.groups) < _EXACT_FLOAT:
            isum = batch.sums(numbers.integers).astype(np.int64)
        else:
            integers = batch.of(numbers.integers).astype(np.int64)
            isum, spilled, owners = sum_integers(integers, batch.groups, size)
        if numbers.fractional is not None:
            fractional = batch.of(numbers.fractional)
            spilled = np.append(spilled, batch.of(numbers.values)[fractional])
            owners = np.append(owners, batch.groups[fractional])
        none = pa.nulls(0, pa.binary())
        return self._columns(isum, spilled, owners, none, _NOWHERE)

    def merge(self, columns: Columns, groups: Ints, size: int) -> dict[str, pa.Array]:
        integers = columns["isum"].fill_null(0).to_numpy(zero_copy_only=False)
        return self._columns(*sum_integers(integers, groups, size), columns["fractions"], groups)

    @staticmethod
    def _columns(
        isum: Ints, floats: Floats, owners: Ints, rows: pa.Array, groups: Ints
    ) -> dict[str, pa.Array]:
        size = len(isum)
        if len(floats) == 0 and rows.null_count == len(rows):
            return {"isum": pa.array(isum), "fractions": pa.nulls(size, pa.binary())}
        from sluice.metrics.kernels import exact

        # Perhaps only a few of all groups have fractions, and each group here costs its digits.
        data, bounds = words(rows, "fractions")
        there = np.zeros(size, np.bool_)
        there[owners] = True
        there[groups[np.diff(bounds) > 0]] = True
        dense = np.cumsum(there) - 1
        sums, ends, sound = exact.add_up(floats, dense[owners], data, bounds, dense[groups], int(there.sum()))
        if not sound:
            raise Damaged("fractions")
        return {"isum": pa.array(isum), "fractions": binary(sums, np.append(0, ends[dense + 1]))}


class _Extreme(Accumulator):
    """The least or the greatest measure; null while there was none."""

    def __init__(self, name: str, ufunc: np.ufunc, neutral: float) -> None:
        self.name, self._ufunc, self._neutral = name, ufunc, neutral
        self.columns = {name: pa.float64()}

    def add(self, batch: Batch) -> dict[str, pa.Array]:
        if (totals := batch.totals) is not None:
            return self._column(totals.least if self._neutral > 0 else totals.greatest)
        column = batch.numbers.or_greatest if self._neutral > 0 else batch.numbers.or_least
        return self._reduce(batch.of(column), batch.groups, batch.size)

    def merge(self, columns: Columns, groups: Ints, size: int) -> dict[str, pa.Array]:
        values = columns[self.name].fill_null(self._neutral).to_numpy(zero_copy_only=False)
        return self._reduce(values, groups, size)

    def _reduce(self, values: Floats, groups: Ints, size: int) -> dict[str, pa.Array]:
        out = np.full(size, self._neutral)
        self._ufunc.at(out, groups, values)
        return self._column(out)

    def _column(self, extremes: Floats) -> dict[str, pa.Array]:
        return {self.name: pa.array(extremes, mask=np.isinf(extremes))}


LINES = Lines("lines")
MEASURED = Measured("measured")
SUM = Sum()
MIN = _Extreme("min", np.minimum, np.inf)
MAX = _Extreme("max", np.maximum, -np.inf)


def whole_numbers(values: Floats) -> tuple[Ints, Bools]:
    """The values as integers, and which are integers that a float64 holds exactly."""
    exact = (np.abs(values) < _EXACT_FLOAT) & (np.floor(values) == values)
    return np.where(exact, values, 0).astype(np.int64), exact


def extreme_results(column: pa.Array) -> Results:
    """An extreme as a result: exact if it is an integer."""
    values = column.to_numpy(zero_copy_only=False)  # null becomes NaN
    return Results(values, *whole_numbers(values))
