"""The figures as Prometheus reads them."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from sluice.monitoring.families import FAMILIES, MetricFamily
from sluice.monitoring.figures import Figures
from sluice.monitoring.series import Histogram, Labels

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def exposition(figures: Figures) -> bytes:
    """Prometheus' text format, version 0.0.4; label values are escaped."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collected(figures))
    return generate_latest(registry)


class _Collected(Collector):
    """The families that have a value."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterable[Metric]:
        for name, family in FAMILIES.items():
            if found := self._figures.values.get(name):
                made = _made(family)
                for labels, value in found.items():
                    _add(made, labels, value)
                yield made


_Made = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
_KINDS: dict[str, type[_Made]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


def _made(family: MetricFamily) -> _Made:
    return _KINDS[family.kind](family.name, family.help, labels=family.labels)


def _add(made: _Made, labels: Labels, value: float | Histogram) -> None:
    if isinstance(made, HistogramMetricFamily) and isinstance(value, Histogram):
        made.add_metric(labels, _cumulated(value), value.sum)
    elif isinstance(made, CounterMetricFamily | GaugeMetricFamily) and not isinstance(value, Histogram):
        made.add_metric(labels, value)
    else:
        raise TypeError(f"{made.name}: {value} is of another kind")


def _cumulated(value: Histogram) -> list[tuple[str, float]]:
    """Prometheus counts what is at most each bound."""
    total, found = 0, []
    for bound, lines in value.counts.items():
        total += lines
        found.append((bound, float(total)))
    return found
