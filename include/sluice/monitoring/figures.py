"""The figures at one time: values of the metrics in `families`, by their labels.

They come from three small files that the speed layer, the archiver and the watch replace as a whole. So
reading them takes milliseconds, asks no daemon anything, and works while PostgreSQL or Kafka is away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluice.monitoring import from_archiver, from_speed, from_watch
from sluice.monitoring.families import FAMILIES
from sluice.monitoring.series import Histogram, Labels, MetricSeries
from sluice.runtime.settings import Settings
from sluice.stack import jobs

#: How many series of a metric are shown; the rest is counted as left out.
MOST = 1_000
#: Each file, and what makes figures of it.
_SOURCES = {"speed_layer": from_speed.read, "archiver": from_archiver.read, "watch": from_watch.read}


@dataclass(frozen=True)
class Figures:
    """Values by metric and labels; every name is one of FAMILIES."""

    values: Mapping[str, Mapping[Labels, float | Histogram]]

    @classmethod
    def of(cls, series: MetricSeries) -> Figures:
        """The series, at most `MOST` of a metric."""
        shown: dict[str, Mapping[Labels, float | Histogram]] = {}
        left_out: dict[Labels, float | Histogram] = {}
        for name, found in series.values.items():
            kept = sorted(found)[:MOST]
            shown[name] = {labels: found[labels] for labels in kept}
            if len(found) > MOST:
                left_out[(name,)] = float(len(found) - MOST)
        return cls({**shown, "sluice_series_left_out": left_out})

    def document(self) -> dict[str, Any]:
        """As JSON: {metric: [[labels, value], ...]}; a histogram's value is its count and sum."""
        return {
            name: [
                [dict(zip(FAMILIES[name].labels, labels, strict=True)), _plain(value)]
                for labels, value in found.items()
            ]
            for name, found in self.values.items()
            if found
        }


def read(settings: Settings, now: float) -> Figures:
    """The figures at `now` (seconds since the epoch) that the jobs' files give."""
    series = MetricSeries()
    for job, of in _SOURCES.items():
        found = jobs.progress(settings, job)
        if found:
            of(found, series, now)
    return Figures.of(series)


def _plain(value: float | Histogram) -> Any:
    if isinstance(value, Histogram):
        return {"lines": sum(value.counts.values()), "sum": value.sum, "upto": dict(value.counts)}
    return value
