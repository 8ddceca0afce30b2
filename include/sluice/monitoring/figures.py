"""The figures at one time: values of the metrics in `families`, by their labels.

They come from three small files that the speed layer, the archiver and the watch replace as a whole. So
reading them takes milliseconds, asks no daemon anything, and works while PostgreSQL or Kafka is away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluice.monitoring.families import FAMILIES
from sluice.monitoring.job_figures import read_archiver, read_speed_layer, read_watch
from sluice.monitoring.series import Histogram, Labels, MetricSeries
from sluice.runtime.settings import Settings
from sluice.stack import jobs, progress

#: How many series of a metric are shown; the rest is counted as left out.
MOST = 1_000


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
    speed_layer, archiver = jobs.speed_layer(settings), jobs.archiver(settings)
    if speed_layer.updated_at:
        read_speed_layer(speed_layer, series, now)
    if archiver.updated_at:
        read_archiver(archiver, series, now)
    watch = progress.read(progress.progress_file(settings, progress.WATCH), progress.WatchProgress)
    if watch.updated_at:
        read_watch(watch, series, now)
    return Figures.of(series)


def _plain(value: float | Histogram) -> Any:
    if isinstance(value, Histogram):
        return {"lines": sum(value.counts.values()), "sum": value.sum, "upto": dict(value.counts)}
    return value
