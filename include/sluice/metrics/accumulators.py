"""The accumulators that the metrics share."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sluice.metrics.base import Accumulator, Batch, Columns, Results
from sluice.metrics.typing import Floats, Ints

#: An integer sum that reaches this moves to the floating-point sum, so that int64 can never overflow.
SPILL = 1 << 62
_EXACT_FLOAT = 1 << 53
_LOW = np.int64(0xFFFFFFFF)
_NONE, _NOWHERE = np.empty(0), np.empty(0, np.int64)


def sum_integers(values: Ints, groups: Ints, size: int) -> tuple[Ints, Floats]:
    """Exact sums by group, and what spilled: a sum that reaches `SPILL` is in the second, not the first."""
    spilled = np.zeros(size)
    if len(values) == 0:
        return np.zeros(size, np.int64), spilled
    bound = max(abs(int(values.min())), abs(int(values.max()))) * len(values)
    if bound < _EXACT_FLOAT:  # bincount adds in float64: exact below 2^53, and the fastest of the three
        return np.bincount(groups, weights=values, minlength=size).astype(np.int64), spilled
    if bound < SPILL:
        total = np.zeros(size, np.int64)
        np.add.at(total, groups, values)
        return total, spilled
    high, low = np.zeros(size, np.int64), np.zeros(size, np.int64)
    np.add.at(high, groups, values >> 32)
    np.add.at(low, groups, values & _LOW)
    high += low >> 32
    low &= _LOW
    over = (high >= SPILL >> 32) | (high < -(SPILL >> 32))
    spilled[over] = high[over].astype(np.float64) * 2.0**32 + low[over]
    high[over] = low[over] = 0
    return (high << 32) + low, spilled


def _valid(column: pa.Array) -> npt.NDArray[np.bool_] | None:
    return None if column.null_count == 0 else column.is_valid().to_numpy(zero_copy_only=False)


class _Counter(Accumulator):
    """A sum of non-negative integers in one column."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.columns = {name: pa.int64()}

    def merge(self, columns: Columns, groups: Ints, size: int) -> dict[str, pa.Array]:
        values = columns[self.name].fill_null(0).to_numpy(zero_copy_only=False)
        total, _ = sum_integers(values, groups, size)
        return {self.name: pa.array(total)}


class Lines(_Counter):
    """How many lines passed the filters."""

    def add(self, batch: Batch) -> dict[str, pa.Array]:
        return {self.name: pa.array(np.bincount(batch.groups, minlength=batch.size).astype(np.int64))}


class Measured(_Counter):
    """How many of those lines had a measure."""

    def add(self, batch: Batch) -> dict[str, pa.Array]:
        measured = batch.measured
        counts: npt.NDArray[Any] = (
            np.bincount(batch.groups, minlength=batch.size)
            if measured.complete
            else batch.sums(measured.present)
        )
        return {self.name: pa.array(counts.astype(np.int64))}


class Sum(Accumulator):
    """The sum of the measures: integral ones exactly in `isum`, the others (and what spilled) in `fsum`.

    `fsum` is null while every measure was integral and nothing spilled: then the sum is an exact integer.
    """

    name = "sum"

    def __init__(self) -> None:
        self.columns = {"isum": pa.int64(), "fsum": pa.float64()}

    def add(self, batch: Batch) -> dict[str, pa.Array]:
        numbers, size = batch.numbers, batch.size
        if numbers.largest * len(batch.groups) < _EXACT_FLOAT:
            isum, spilled = batch.sums(numbers.integers).astype(np.int64), np.zeros(size)
        else:
            integers = batch.of(numbers.integers).astype(np.int64)
            isum, spilled = sum_integers(integers, batch.groups, size)
        if numbers.fractional is None:
            return self._columns(isum, spilled, _NONE, _NOWHERE)
        fractional = batch.of(numbers.fractional)
        return self._columns(isum, spilled, batch.of(numbers.values)[fractional], batch.groups[fractional])

    def merge(self, columns: Columns, groups: Ints, size: int) -> dict[str, pa.Array]:
        isum, spilled = sum_integers(
            columns["isum"].fill_null(0).to_numpy(zero_copy_only=False), groups, size
        )
        fractions = columns["fsum"]
        valid = _valid(fractions)
        floats = fractions.to_numpy(zero_copy_only=False)
        return self._columns(
            isum,
            spilled,
            floats if valid is None else floats[valid],
            groups if valid is None else groups[valid],
        )

    @staticmethod
    def _columns(isum: Ints, spilled: Floats, floats: Floats, groups: Ints) -> dict[str, pa.Array]:
        size = len(isum)
        fsum = spilled + np.bincount(groups, weights=floats, minlength=size)
        none = (np.bincount(groups, minlength=size) == 0) & (spilled == 0)
        return {"isum": pa.array(isum), "fsum": pa.array(fsum, mask=none)}


class _Extreme(Accumulator):
    """The least or the greatest measure; null while there was none."""

    def __init__(self, name: str, ufunc: np.ufunc, neutral: float) -> None:
        self.name, self._ufunc, self._neutral = name, ufunc, neutral
        self.columns = {name: pa.float64()}

    def add(self, batch: Batch) -> dict[str, pa.Array]:
        column = batch.numbers.or_greatest if self._neutral > 0 else batch.numbers.or_least
        return self._reduce(batch.of(column), batch.groups, batch.size)

    def merge(self, columns: Columns, groups: Ints, size: int) -> dict[str, pa.Array]:
        values = columns[self.name].fill_null(self._neutral).to_numpy(zero_copy_only=False)
        return self._reduce(values, groups, size)

    def _reduce(self, values: Floats, groups: Ints, size: int) -> dict[str, pa.Array]:
        out = np.full(size, self._neutral)
        self._ufunc.at(out, groups, values)
        return {self.name: pa.array(out, mask=np.isinf(out))}


LINES = Lines("lines")
MEASURED = Measured("measured")
SUM = Sum()
MIN = _Extreme("min", np.minimum, np.inf)
MAX = _Extreme("max", np.maximum, -np.inf)


def whole_numbers(values: Floats) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """The values as integers, and where they are such: integers that a float64 holds exactly."""
    exact = (np.abs(values) < _EXACT_FLOAT) & (np.floor(values) == values)
    return np.where(exact, values, 0).astype(np.int64), exact


def extreme_results(column: pa.Array) -> Results:
    """An extreme as a result: exact where it is an integer."""
    values = column.to_numpy(zero_copy_only=False)  # null becomes NaN
    return Results(values, *whole_numbers(values))
