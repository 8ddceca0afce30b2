"""The standard deviation of the measures, of the whole population (SQL's `stddev_pop`)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sluice.metrics.base import Accumulator, Batch, Columns, Metric, Results
from sluice.runtime.arrays import Floats, Ints


class Moments(Accumulator):
    """The number of measures, their mean, and the sum of squared distances from it.

    States merge as in Chan et al., 1979. The mean is kept in two floats, so that states whose means differ by
    little more than a float's precision still merge exactly. Distances are taken from one measure of the
    group, so that large measures that differ by little lose nothing.
    """

    name = "moments"

    def __init__(self) -> None:
        self.columns = {
            "moment_n": pa.int64(),
            "moment_mean": pa.float64(),
            "moment_low": pa.float64(),  # what the mean in one float lacks
            "moment_m2": pa.float64(),
        }

    def add(self, batch: Batch) -> dict[str, pa.Array]:
        values, groups = batch.of(batch.numbers.values), batch.groups
        if not batch.numbers.complete:
            there = batch.of(batch.numbers.present)
            values, groups = values[there], groups[there]
        ones = np.ones(len(values), np.int64)
        return _combined(groups, batch.size, ones, values)

    def merge(self, columns: Columns, groups: Ints, size: int) -> dict[str, pa.Array]:
        counts = columns["moment_n"].fill_null(0).to_numpy(zero_copy_only=False)
        there = counts > 0
        mean, low, m2 = (
            columns[name].to_numpy(zero_copy_only=False)[there]
            for name in ("moment_mean", "moment_low", "moment_m2")
        )
        return _combined(groups[there], size, counts[there], mean, (low, m2))


def _combined(
    groups: Ints, size: int, counts: Ints, means: Floats, rest: tuple[Floats, Floats] | None = None
) -> dict[str, pa.Array]:
    """Merge states or, without a `rest` (low and m2), single measures; empty groups are null."""
    n = np.bincount(groups, weights=counts, minlength=size)
    origin = np.zeros(size)
    origin[groups] = means  # any one measure or mean of the group
    distances = means - origin[groups]
    if rest is not None:
        distances += rest[0]
    shift = np.bincount(groups, weights=counts * distances, minlength=size) / np.maximum(n, 1)
    distances -= shift[groups]
    squares = counts * distances * distances
    if rest is not None:
        squares += rest[1]
    total = np.bincount(groups, weights=squares, minlength=size).astype(np.float64)  # ints if none
    mean = origin + shift
    back = mean - origin
    low = (origin - (mean - back)) + (shift - back)  # Knuth's two-sum: exact
    none = n == 0
    return {
        "moment_n": pa.array(n.astype(np.int64), mask=none),
        "moment_mean": pa.array(mean, mask=none),
        "moment_low": pa.array(low, mask=none),
        "moment_m2": pa.array(total, mask=none),
    }


MOMENTS = Moments()


class Stddev(Metric):
    name = "stddev"
    accumulators = (MOMENTS,)
    measure = "number"
    tolerance = 1e-9

    def results(self, columns: Columns) -> Results:
        """The deviation; no value for a series without any measure."""
        n = columns["moment_n"].fill_null(0).to_numpy(zero_copy_only=False)
        m2 = np.asarray(columns["moment_m2"].fill_null(np.nan), np.float64)
        return Results(np.sqrt(m2 / np.maximum(n, 1)))
