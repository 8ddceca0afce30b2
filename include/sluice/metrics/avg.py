"""The mean of the measures, over the lines that have one."""

from __future__ import annotations

import numpy as np

from sluice.metrics.accumulators import MEASURED, SUM
from sluice.metrics.base import Columns, Metric, Results
from sluice.metrics.sum import total


class Avg(Metric):
    name = "avg"
    accumulators = (SUM, MEASURED)
    measure = "number"
    tolerance = 0.0

    def results(self, columns: Columns) -> Results:
        """The mean; no value for a series without any measure."""
        measured = columns["measured"].to_numpy(zero_copy_only=False).astype(np.float64)
        measured[measured == 0] = np.nan
        return Results(total(columns) / measured)
