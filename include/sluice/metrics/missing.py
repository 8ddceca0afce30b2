"""How many lines had no measure ("-", nothing, no number): what sum, avg, min, max skip."""

from __future__ import annotations

import numpy as np

from sluice.metrics.accumulators import LINES, MEASURED
from sluice.metrics.base import Columns, Metric, Results


class Missing(Metric):
    name = "missing"
    accumulators = (LINES, MEASURED)
    measure = "any"
    tolerance = 0.0

    def results(self, columns: Columns) -> Results:
        lines = columns["lines"].to_numpy(zero_copy_only=False)
        missing = lines - columns["measured"].to_numpy(zero_copy_only=False)
        return Results(missing.astype(np.float64), missing, np.ones(len(missing), bool))
