"""The sum of the measures, exact in any order: an integer if all of them are, else a float."""

from __future__ import annotations

import numpy as np

from sluice.metrics.accumulators import MEASURED, SUM
from sluice.metrics.base import Columns, Metric, Results
from sluice.metrics.packed import Damaged, words
from sluice.runtime.arrays import Floats, Ints


def total(columns: Columns) -> Floats:
    """The sum as a float, fractions included; the same for any split into batches."""
    integers: Ints = columns["isum"].fill_null(0).to_numpy(zero_copy_only=False)
    fractions = columns["fractions"]
    if fractions.null_count == len(fractions):
        return integers.astype(np.float64)
    from sluice.metrics.kernels import exact

    floats, sound = exact.as_floats(*words(fractions, "fractions"), integers)
    if not sound:
        raise Damaged("fractions")
    return floats


class Sum(Metric):
    name = "sum"
    accumulators = (SUM, MEASURED)
    measure = "number"
    tolerance = 0.0

    def results(self, columns: Columns) -> Results:
        """The sum; no value for a series without any measure."""
        measured = columns["measured"].to_numpy(zero_copy_only=False) > 0
        exact = columns["fractions"].is_null().to_numpy(zero_copy_only=False)
        values = np.where(measured, total(columns), np.nan)
        return Results(values, columns["isum"].to_numpy(zero_copy_only=False), exact)
