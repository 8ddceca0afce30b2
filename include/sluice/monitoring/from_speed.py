"""What the speed layer's progress file says (`stack.progress`)."""

from __future__ import annotations

from sluice.monitoring.series import Histogram, MetricSeries, age
from sluice.stack.jobs import SPEED_LAYER
from sluice.stack.progress import CountedTopic, CountingState, SpeedLayerProgress


def read(progress: SpeedLayerProgress, series: MetricSeries, now: float) -> None:
    """Add the file's figures. Topics that have counted nothing yet have only their state."""
    series.add("sluice_heartbeat_age_seconds", age(progress.updated_at, now), SPEED_LAYER)
    for topic, found in progress.topics.items():
        series.add("sluice_topic_works", float(found.state == CountingState.COUNTING), SPEED_LAYER, topic)
        if found.batches:
            _counted(topic, found, series)
            _newest(topic, found, series)
            _tasks(topic, found, series)
        _projected(topic, found, series)


def _counted(topic: str, found: CountedTopic, series: MetricSeries) -> None:
    """The sums since the speed layer's start."""
    for outcome in ("counted", "doubled", "dead"):
        series.add("sluice_lines_total", getattr(found, outcome), topic, outcome)
    series.add("sluice_unmatched_lines_total", found.unmatched, topic)
    series.add("sluice_bytes_total", found.bytes, topic)
    series.add("sluice_batches_total", found.batches, topic)
    series.add("sluice_pass_cpu_seconds_total", found.pass_us / 1e6, topic)
    for reason, lines in found.dead_reasons.items():
        series.add("sluice_dead_lines_total", lines, topic, reason)
    if found.freshness:
        waited = Histogram(found.freshness, found.freshness_ms / 1000)
        series.add("sluice_freshness_seconds", waited, topic)


def _newest(topic: str, found: CountedTopic, series: MetricSeries) -> None:
    for lap, milliseconds in found.durations.items():
        series.add("sluice_batch_lap_seconds", milliseconds / 1000, topic, lap)
    series.add("sluice_blocks_written", found.blocks, topic)


def _tasks(topic: str, found: CountedTopic, series: MetricSeries) -> None:
    """By task: the sums over its versions, and the imbalance of the version that is counted now."""
    names = {label: report["task"] for label, report in found.grouping.items()}
    for metric, key in (
        ("sluice_task_lines_total", "task_lines"),
        ("sluice_task_skipped_lines_total", "task_skipped"),
        ("sluice_task_unmatched_lines_total", "task_unmatched"),
        ("sluice_task_too_long_lines_total", "task_too_long"),
    ):
        for label, lines in getattr(found, key).items():
            if label in names:  # an earlier version's sum would let the counter jump between two names
                series.add(metric, lines, topic, names[label])
    for label, report in found.grouping.items():
        if report.get("imbalance"):
            series.add("sluice_imbalance", report["imbalance"]["last"], topic, names[label])


def _projected(topic: str, found: CountedTopic, series: MetricSeries) -> None:
    projection = found.projection
    if projection is None:
        return
    behind = max(0, (found.seq or projection.seq) - projection.seq)
    series.add("sluice_projector_lag_commits", behind, topic)
    series.add("sluice_results_written", projection.results, topic)
    series.add("sluice_projection_seconds", projection.ms / 1000, topic)
