"""What can be computed of a series: one file for each metric."""

from sluice.metrics.base import Accumulator, Batch, Metric, Numbers, Results
from sluice.metrics.registry import (
    METRICS,
    NotLoaded,
    UnknownMetric,
    accumulator_columns,
    accumulators,
    all_accumulators,
    load_team,
    metric,
)
from sluice.metrics.texts import Texts

__all__ = [
    "METRICS",
    "Accumulator",
    "Batch",
    "Metric",
    "NotLoaded",
    "Numbers",
    "Results",
    "Texts",
    "UnknownMetric",
    "accumulator_columns",
    "accumulators",
    "all_accumulators",
    "load_team",
    "metric",
]
