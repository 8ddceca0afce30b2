"""Every metric by its name, and every accumulator column that a table of partial aggregates may have."""

from __future__ import annotations

import pyarrow as pa

from sluice.metrics.accumulators import LINES
from sluice.metrics.avg import Avg
from sluice.metrics.base import Accumulator, Metric
from sluice.metrics.count import Count
from sluice.metrics.max import Max
from sluice.metrics.min import Min
from sluice.metrics.missing import Missing
from sluice.metrics.sum import Sum

METRICS: dict[str, Metric] = {m.name: m for m in (Count(), Sum(), Avg(), Min(), Max(), Missing())}

#: Accumulators by name, in the order of their columns. `lines` is kept for every task: it is what tells a
#: series that exists from one that does not.
ACCUMULATORS: dict[str, Accumulator] = {
    a.name: a for a in (LINES, *(a for m in METRICS.values() for a in m.accumulators))
}

COLUMNS: dict[str, pa.DataType] = {n: t for a in ACCUMULATORS.values() for n, t in a.columns.items()}


class UnknownMetric(ValueError):
    """A task asks for a metric that is not in the registry."""


def metric(name: str) -> Metric:
    try:
        return METRICS[name]
    except KeyError:
        raise UnknownMetric(f"metric {name!r} is not known: use one of {', '.join(METRICS)}") from None


def accumulators(metrics: list[str] | tuple[str, ...]) -> tuple[Accumulator, ...]:
    """The distinct accumulators that these metrics need, `lines` always among them."""
    needed = {a.name for m in metrics for a in metric(m).accumulators} | {LINES.name}
    return tuple(a for name, a in ACCUMULATORS.items() if name in needed)
