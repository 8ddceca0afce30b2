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
        """No value for a series without a single measure."""
        return extreme_results(columns["max"])
