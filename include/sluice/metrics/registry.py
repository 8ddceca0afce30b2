"""Every metric by its name, and every accumulator column that a table of partial aggregates may have."""

from __future__ import annotations

import functools

import pyarrow as pa

from sluice.metrics.accumulators import LINES
from sluice.metrics.avg import Avg
from sluice.metrics.base import Accumulator, Metric
from sluice.metrics.count import Count
from sluice.metrics.max import Max
from sluice.metrics.min import Min
from sluice.metrics.missing import Missing
from sluice.metrics.quantile import KLL, Quantile
from sluice.metrics.stddev import Stddev
from sluice.metrics.sum import Sum
from sluice.metrics.team import Team, found, load
from sluice.metrics.top import HEAVY, Top
from sluice.metrics.unique import Unique

#: Those that have one name. There are also the quantiles and top-k; `metric` knows all.
METRICS: dict[str, Metric] = {
    m.name: m for m in (Count(), Sum(), Avg(), Min(), Max(), Missing(), Stddev(), Unique())
}
_NAMED = "p50, p99.9 (any quantile between 0 and 100 with up to 3 decimals), top10 (top1 to top100)"


def _built_in(name: str) -> Metric | None:
    return METRICS.get(name) or Quantile.named(name) or Top.named(name)


#: The team's own (`user.py`), and why some are not loaded.
TEAM: Team = load(found(), lambda name: _built_in(name) is not None)

#: Accumulators by name, in the order of their columns. `lines` is kept for every task: it is what tells a
#: series that exists from one that does not.
ACCUMULATORS: dict[str, Accumulator] = {
    a.name: a
    for a in (
        LINES,
        *(a for m in METRICS.values() for a in m.accumulators),
        KLL,
        HEAVY,
        *(a for m in TEAM.metrics.values() for a in m.accumulators),
    )
}

COLUMNS: dict[str, pa.DataType] = {n: t for a in ACCUMULATORS.values() for n, t in a.columns.items()}


class UnknownMetric(ValueError):
    """The requested metric does not exist."""


@functools.cache
def metric(name: str) -> Metric:
    """The metric of that name. Raises UnknownMetric."""
    known = _built_in(name) or TEAM.metrics.get(name)
    if known is None:
        there = ", ".join((*METRICS, *TEAM.metrics, _NAMED))
        broken = "".join(f"; {file} is not loaded: {why}" for file, why in TEAM.problems.items())
        raise UnknownMetric(f"metric {name!r} is not known: use one of {there}{broken}")
    return known


def accumulators(metrics: list[str] | tuple[str, ...]) -> tuple[Accumulator, ...]:
    """The distinct accumulators that these metrics need, `lines` always among them."""
    needed = {a.name for m in metrics for a in metric(m).accumulators} | {LINES.name}
    return tuple(a for name, a in ACCUMULATORS.items() if name in needed)
