"""What can be computed of a series: one file a metric."""

from sluice.metrics.base import Accumulator, Batch, Metric, Numbers, Results
from sluice.metrics.registry import ACCUMULATORS, COLUMNS, METRICS, UnknownMetric, accumulators, metric
from sluice.metrics.texts import Texts

__all__ = [
    "ACCUMULATORS",
    "COLUMNS",
    "METRICS",
    "Accumulator",
    "Batch",
    "Metric",
    "Numbers",
    "Results",
    "Texts",
    "UnknownMetric",
    "accumulators",
    "metric",
]
