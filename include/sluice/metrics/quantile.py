"""Quantiles (p50, p95, p99.9, ...): exact up to 1,024 measures of a series, then by KLL."""

from __future__ import annotations

import re
from decimal import Decimal

import pyarrow as pa

from sluice.metrics.accumulators import whole_numbers
from sluice.metrics.base import Accumulator, Batch, Columns, Metric, Results
from sluice.metrics.packed import Damaged, binary, words
from sluice.runtime.arrays import Ints

#: Between 0 and 100, with up to 3 decimals and no superfluous zeros: each quantile has one name.
NAME = re.compile(r"p((?:0|[1-9]\d?)(?:\.\d{0,2}[1-9])?)")
#: How many of the smallest steps make one percent.
_STEPS = 1_000


class Quantiles(Accumulator):
    """A sketch of the measures; all quantiles of a series share it (`kernels.kll`)."""

    name = "kll"

    def __init__(self) -> None:
        self.columns = {"kll": pa.binary()}

    def add(self, batch: Batch) -> dict[str, pa.Array]:
        from sluice.metrics.kernels import kll

        data, ends = kll.add(*batch.ascending)
        return {"kll": binary(data, ends)}

    def merge(self, columns: Columns, groups: Ints, size: int) -> dict[str, pa.Array]:
        from sluice.metrics.kernels import kll
        from sluice.metrics.kernels.row_groups import by_group

        data, ends, sound = kll.merge(*words(columns["kll"], "kll"), *by_group(groups, size))
        if not sound:
            raise Damaged("kll")
        return {"kll": binary(data, ends)}


KLL = Quantiles()


class Quantile(Metric):
    """One quantile: the least measure that at least `percent` of all measures do not exceed."""

    accumulators = (KLL,)
    measure = "number"
    tolerance = 0.0
    sketched = True

    def __init__(self, percent: str) -> None:
        self.name = f"p{percent}"
        self._part = int(Decimal(percent) * _STEPS)

    @classmethod
    def named(cls, name: str) -> Quantile | None:
        """The quantile of that name; None if no quantile has it."""
        found = NAME.fullmatch(name)
        return cls(found[1]) if found and Decimal(found[1]) > 0 else None

    def results(self, columns: Columns) -> Results:
        """The quantile; no value for a series without any measure.

        The error is in the unit of the measure: the true quantile is at most that far from the value.
        """
        from sluice.metrics.kernels import kll

        values, errors, sound = kll.read(*words(columns["kll"], "kll"), self._part, 100 * _STEPS)
        if not sound:
            raise Damaged("kll")
        return Results(values, *whole_numbers(values), errors=errors)
