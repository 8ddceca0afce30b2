"""The greatest measure."""

from __future__ import annotations

from sluice.metrics.accumulators import MAX, extreme_results
from sluice.metrics.base import Columns, Metric, Results


class Max(Metric):
    name = "max"
    accumulators = (MAX,)
    measure = "number"
    tolerance = 0.0

    def results(self, columns: Columns) -> Results:
        """The greatest measure; no value for a series without any."""
        return extreme_results(columns["max"])
