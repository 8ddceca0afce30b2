"""What a metric is, and what it may read of a batch.

A metric is a pure function of *accumulators*. An accumulator is the state of one series in one period: it can
be computed from lines (`add`), two of them can be combined (`merge`: associative and commutative, null is
neutral), and several metrics may share one (avg needs the sum and the number of measured lines, which sum and
missing need as well). Everything is columnar: one call handles all groups of a batch.

To add a metric: write a file next to this one with a `Metric` (and an `Accumulator`, if none of those in
`accumulators.py` fits), and list it in `registry.py`. Both layers load it from there. A team that does not
want to touch this package writes a `UserMetric` instead (`user.py`, docs/metrics.md).
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sluice.metrics.texts import Texts
from sluice.runtime.arrays import Bools, Floats, Ints

Columns = Mapping[str, pa.Array]

Scalar = TypeVar("Scalar", bound=np.generic)


#: Integral measures up to this size are summed exactly. 2^43 leaves room for 2^19 lines of the largest in one
#: batch below 2^62, so the usual batch needs no wide sums.
INTEGRAL = float(1 << 43)
#: Sums of integers below this are far from the end of int64.
OVERFLOW = 1 << 62
#: From this many counted lines on, kernels are worth the time that numba takes to load.
COMPILED_ROWS = 2_048
_ALL = np.empty(0, np.int64)


class Numbers:
    """A measure of all lines of a batch, and what accumulators and tasks ask about it."""

    def __init__(self, values: Floats, distinct: Floats | None = None) -> None:
        """`values`: per line, NaN where the measure is missing.

        `distinct`: the values that occur, fewer than there are lines.
        """
        self.values = values
        self._distinct = values if distinct is None else distinct

    @cached_property
    def present(self) -> Bools:
        return ~np.isnan(self.values)

    @cached_property
    def complete(self) -> bool:
        return not np.isnan(self._distinct).any()

    @cached_property
    def integral(self) -> Bools:
        return _integral(self.values)

    @cached_property
    def integers(self) -> Floats:
        """The measure where it is integral, else 0."""
        return np.where(self.integral, self.values, 0.0)

    @cached_property
    def largest(self) -> float:
        """The largest magnitude among `integers`."""
        return float(np.abs(self._distinct[_integral(self._distinct)]).max(initial=0.0))

    @cached_property
    def fractional(self) -> Bools | None:
        """Which measures exist and are not integral; None if there are none."""
        if not (~np.isnan(self._distinct) & ~_integral(self._distinct)).any():
            return None
        return self.present & ~self.integral

    @cached_property
    def ascending(self) -> Ints:
        """The lines that have a measure, the least measure first: one sort for all tasks."""
        return np.argsort(self.values)[: int(self.present.sum())]  # NaN comes last

    @cached_property
    def or_greatest(self) -> Floats:
        """The measure, infinity where it is missing."""
        return self.values if self.complete else np.where(self.present, self.values, np.inf)

    @cached_property
    def or_least(self) -> Floats:
        """The measure, minus infinity where it is missing."""
        return self.values if self.complete else np.where(self.present, self.values, -np.inf)


def _integral(values: Floats) -> Bools:
    mask: Bools = (np.abs(values) <= INTEGRAL) & (np.floor(values) == values)
    return mask


@dataclass(frozen=True)
class Totals:
    """What a batch's measures add up to, by group."""

    lines: Ints
    measured: Ints
    integers: Ints  # the sum of the integral measures
    least: Floats  # infinity where there is no measure
    greatest: Floats  # minus infinity where there is no measure


@dataclass(frozen=True)
class Batch:
    """The lines that one task counts in one batch, grouped by period and series."""

    groups: Ints  # per counted line: the number of its group, 0 .. size - 1
    size: int  # how many groups there are
    measure: Numbers | None  # of all lines of the batch; None for a task without a measure, or with a text
    rows: Ints | None = None  # which lines of the batch the task counts; None: all
    texts: Texts | None = None  # of all lines of the batch; None for a task without a measure

    @property
    def numbers(self) -> Numbers:
        if self.measure is None:
            raise ValueError(
                "this accumulator needs a measure of numbers, the task has none: "
                "add one to the task, of type number"
            )
        return self.measure

    @property
    def text(self) -> Texts:
        if self.texts is None:
            raise ValueError("this accumulator needs a measure, the task has none: add one to the task")
        return self.texts

    @property
    def measured(self) -> Numbers | Texts:
        """The measure, as numbers or texts; it says which lines have one of the task's type."""
        return self.text if self.measure is None else self.measure

    @cached_property
    def totals(self) -> Totals | None:
        """The totals of a measure of numbers, made in one go.

        None if there is no such measure, if a sum might overflow, or if the batch is too small for a kernel.
        """
        numbers = self.measure
        if numbers is None or len(self.groups) < COMPILED_ROWS:
            return None
        if numbers.largest * len(self.groups) >= OVERFLOW:
            return None
        from sluice.metrics.kernels.totals import totals

        rows = _ALL if self.rows is None else self.rows
        return Totals(*totals(numbers.values, numbers.integral, rows, self.groups, self.size))

    @cached_property
    def pairs(self) -> tuple[Ints, Ints, Ints]:
        """The distinct texts of each group: code, number of lines, where each group's begin.

        They are in the order of the groups. Lines without a measure of the task's type are left out.
        """
        from sluice.metrics.kernels.row_groups import pairs

        texts = self.text
        codes: npt.NDArray[Any] = self.of(texts.codes)
        present = texts.present if self.measure is None else texts.present & self.measure.present
        if not present.all():
            codes = np.where(self.of(present), codes, len(texts.distinct))
        return pairs(codes, self.groups, self.size, len(texts.distinct))

    @cached_property
    def ascending(self) -> tuple[Floats, Ints]:
        """The measures by group, ascending within each, and where each group's begin."""
        from sluice.metrics.kernels.row_groups import values_by_group

        numbers, groups = self.numbers, self.groups
        if self.rows is not None:
            groups = np.full(len(numbers.values), -1)
            groups[self.rows] = self.groups
        return values_by_group(numbers.values, numbers.ascending, groups, self.size)

    def of(self, column: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
        """The entries of a column of the whole batch that belong to the counted lines."""
        return column if self.rows is None else column.take(self.rows)

    def sums(self, column: npt.NDArray[Any]) -> Floats:
        """A column of the whole batch summed by group, in float64."""
        summed = np.bincount(self.groups, weights=self.of(column), minlength=self.size)
        return summed.astype(np.float64, copy=False)


class Accumulator(ABC):
    """A mergeable state of one or more Arrow columns."""

    name: str
    columns: Mapping[str, pa.DataType]

    @abstractmethod
    def add(self, batch: Batch) -> dict[str, pa.Array]:
        """The state of each group of `batch`: every column has `batch.size` entries."""

    @abstractmethod
    def merge(self, columns: Columns, groups: Ints, size: int) -> dict[str, pa.Array]:
        """Merge states: row i of `columns` goes into group `groups[i]`; null rows change nothing."""


@dataclass(frozen=True)
class Results:
    """One metric's value per row. `values` is NaN where there is none (the average of nothing)."""

    values: Floats
    integers: Ints | None = None  # the exact value where `exact` says so
    exact: Bools | None = None
    #: JSON (string) if the value is a list; `values` then has a number that stands for the list.
    texts: pa.Array | None = None
    #: Of a sketched metric; 0 where the value is exact. The metric's docstring says what the error measures.
    errors: Floats | None = None

    @cached_property
    def missing(self) -> Bools | None:
        """Which rows have no value; None if all have one."""
        missing: Bools = np.isnan(self.values)
        return missing if missing.any() else None

    @property
    def numbers(self) -> pa.Array:
        """`values`, null where there is none."""
        return pa.array(self.values, mask=self.missing)

    @property
    def lists(self) -> pa.Array | None:
        """`texts`, null where there is no value; None if the value is no list."""
        if self.texts is None or self.missing is None:
            return self.texts
        return pc.if_else(pa.array(self.missing), pa.scalar(None, self.texts.type), self.texts)


class Metric(ABC):
    """A named result computed from accumulators."""

    name: str
    accumulators: tuple[Accumulator, ...]
    measure: Literal["none", "number", "any"]  # what the metric is computed of; any: a number or a text
    tolerance: float  # relative; how far the two layers' non-integral values may differ. 0: not at all
    sketched: ClassVar[bool] = False  # is it estimated from a sketch? Then its results have errors

    @property
    def about(self) -> str:
        """What the metric is, in one line: the first line of the file that defines it."""
        return first_line(type(self))

    @abstractmethod
    def results(self, columns: Columns) -> Results:
        """The metric's value for every row of merged accumulator columns."""


def first_line(of: type) -> str:
    """The first docstring line of the file that defines a class, else of the class itself."""
    text = sys.modules[of.__module__].__doc__ or of.__doc__ or ""
    return text.strip().partition("\n")[0]
