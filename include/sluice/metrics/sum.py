"""The sum of the measures: an exact integer as long as every measure is one, else a float."""

from __future__ import annotations

import numpy as np

from sluice.metrics.accumulators import MEASURED, SUM
from sluice.metrics.base import Columns, Metric, Results
from sluice.metrics.typing import Floats


def total(columns: Columns) -> Floats:
    """The sum as a float, fractions included."""
    integers: Floats = columns["isum"].to_numpy(zero_copy_only=False).astype(np.float64)
    return integers + np.asarray(columns["fsum"].fill_null(0.0), np.float64)


class Sum(Metric):
    name = "sum"
    accumulators = (SUM, MEASURED)
    measure = "number"
    tolerance = 1e-9

    def results(self, columns: Columns) -> Results:
        """No value for a series without a single measure."""
        measured = columns["measured"].to_numpy(zero_copy_only=False) > 0
        exact = columns["fsum"].is_null().to_numpy(zero_copy_only=False)
        values = np.where(measured, total(columns), np.nan)
        return Results(values, columns["isum"].to_numpy(zero_copy_only=False), exact)
