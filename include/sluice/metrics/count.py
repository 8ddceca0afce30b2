"""How many lines passed the filters, with or without a measure."""

from __future__ import annotations

import numpy as np

from sluice.metrics.accumulators import LINES
from sluice.metrics.base import Columns, Metric, Results


class Count(Metric):
    name = "count"
    accumulators = (LINES,)
    measure = "none"
    tolerance = 0.0

    def results(self, columns: Columns) -> Results:
        lines = columns["lines"].to_numpy(zero_copy_only=False)
        return Results(lines.astype(np.float64), lines, np.ones(len(lines), bool))
