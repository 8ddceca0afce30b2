"""The least measure."""

from __future__ import annotations

from sluice.metrics.accumulators import MIN, extreme_results
from sluice.metrics.base import Columns, Metric, Results


class Min(Metric):
    name = "min"
    accumulators = (MIN,)
    measure = "number"
    tolerance = 0.0

    def results(self, columns: Columns) -> Results:
        """The least measure; no value for a series without any."""
        return extreme_results(columns["min"])
