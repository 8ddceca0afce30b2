"""Every metric by its name, and every accumulator column of partial aggregates."""

from __future__ import annotations

import functools
import threading

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
from sluice.metrics.top import HEAVY, TopK
from sluice.metrics.unique import Unique

#: The metrics with one fixed name. `metric` also knows the quantiles, top-k and the team's metrics.
METRICS: dict[str, Metric] = {
    m.name: m for m in (Count(), Sum(), Avg(), Min(), Max(), Missing(), Stddev(), Unique())
}
_NAMED = "p50, p99.9 (any quantile between 0 and 100 with up to 3 decimals), top10 (top1 to top100)"


def _built_in(name: str) -> Metric | None:
    return METRICS.get(name) or Quantile.named(name) or TopK.named(name)


class NotLoaded(RuntimeError):
    """A metric was requested before `load_team`, which every program must call first."""

    def __init__(self) -> None:
        super().__init__("the team's metrics are not loaded: call sluice.metrics.load_team() at the start")


_team: list[Team] = []  # has one entry once it is loaded
_loading = threading.Lock()


def load_team() -> Team:
    """Load the team's own metrics, once a process; a program must do so before it uses metrics."""
    with _loading:
        if not _team:
            _team.append(load(found(), lambda name: _built_in(name) is not None))
    return _team[0]


def team() -> Team:
    """What `load_team` loaded. Raises NotLoaded."""
    if not _team:
        raise NotLoaded
    return _team[0]


@functools.cache
def all_accumulators() -> dict[str, Accumulator]:
    """Accumulators by name, in the order of their columns. Raises NotLoaded.

    `lines` is kept for every task: it tells a series that exists from one that does not.
    """
    built_in = (LINES, *(a for m in METRICS.values() for a in m.accumulators), KLL, HEAVY)
    own = (a for m in team().metrics.values() for a in m.accumulators)
    return {a.name: a for a in (*built_in, *own)}


@functools.cache
def accumulator_columns() -> dict[str, pa.DataType]:
    """Every accumulator's columns with their types. Raises NotLoaded."""
    return {name: kind for a in all_accumulators().values() for name, kind in a.columns.items()}


class UnknownMetric(ValueError):
    """The requested metric does not exist."""


@functools.cache
def metric(name: str) -> Metric:
    """The metric of that name. Raises UnknownMetric, NotLoaded."""
    known = _built_in(name) or team().metrics.get(name)
    if known is None:
        there = ", ".join((*METRICS, *team().metrics, _NAMED))
        broken = "".join(f"; {file} is not loaded: {why}" for file, why in team().problems.items())
        raise UnknownMetric(f"metric {name!r} is not known: use one of {there}{broken}")
    return known


def accumulators(metrics: list[str] | tuple[str, ...]) -> tuple[Accumulator, ...]:
    """The distinct accumulators that these metrics need, always including `lines`."""
    needed = {a.name for m in metrics for a in metric(m).accumulators} | {LINES.name}
    return tuple(a for name, a in all_accumulators().items() if name in needed)
