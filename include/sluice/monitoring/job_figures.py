"""The figures in the progress files (`stack.progress`) of the speed layer, the archiver and the watch.

The watch's file has what the jobs cannot say of themselves (`monitoring.watch_progress`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluice.monitoring.series import Histogram, MetricSeries, age
from sluice.monitoring.watch_progress import PARTS
from sluice.stack.jobs import ARCHIVER, SPEED_LAYER
from sluice.stack.progress import (
    WATCH,
    AgentAnswer,
    ArchiverProgress,
    ArchivingState,
    CountedTopic,
    CountingState,
    SpeedLayerProgress,
    WatchProgress,
)


def read_speed_layer(progress: SpeedLayerProgress, series: MetricSeries, now: float) -> None:
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


def read_archiver(heartbeat: ArchiverProgress, series: MetricSeries, now: float) -> None:
    """Add the heartbeat's figures; those of a topic are the sums over its partitions."""
    series.add("sluice_heartbeat_age_seconds", age(heartbeat.updated_at, now), ARCHIVER)
    for topic, found in heartbeat.topics.items():
        series.add("sluice_topic_works", float(found.state == ArchivingState.ARCHIVING), ARCHIVER, topic)
        partitions = found.partitions.values()
        for metric, key in (
            ("sluice_archiver_lines_total", "lines"),
            ("sluice_archiver_files_total", "files"),
            ("sluice_archiver_buffered_lines", "buffered"),
        ):
            series.add(metric, sum(getattr(each, key) for each in partitions), topic)


def read_watch(watch: WatchProgress, series: MetricSeries, now: float) -> None:
    """Add the watch's figures. A part that could not be read is missing, and `sluice_part_known` says so."""
    series.add("sluice_heartbeat_age_seconds", age(watch.updated_at, now), WATCH)
    for part in PARTS:
        series.add("sluice_part_known", float(getattr(watch, part) is not None), part)
    for daemon, problem in (watch.daemons or {}).items():
        series.add("sluice_daemon_healthy", float(not problem), daemon)
    for agent, found in (watch.agents or {}).items():
        _agent(agent, found, series)
    for topic, hops in (watch.lag or {}).items():
        for hop, behind in hops.items():
            series.add("sluice_lag_records", behind.records, topic, hop)
            series.add("sluice_lag_seconds", behind.seconds, topic, hop)
    _books(watch.books or {}, series)
    for disk, space in (watch.disks or {}).items():
        for name in ("free", "size", "reserve"):
            series.add(f"sluice_disk_{name}_bytes", getattr(space, name), disk)
    for what, held in (watch.held or {}).items():
        series.add("sluice_held", float(held), what)


def _agent(agent: str, found: AgentAnswer, series: MetricSeries) -> None:
    series.add("sluice_agent_answers", float(found.answers), agent)
    if found.answers:
        series.add("sluice_channel_fill_ratio", found.fill, agent)
        series.add("sluice_channel_blocks", found.blocks, agent)
        for way in ("put", "taken"):
            series.add("sluice_agent_blocks_total", getattr(found, way), agent, way)


def _books(books: Mapping[str, Any], series: MetricSeries) -> None:
    for topic, found in books.get("archive", {}).items():
        for key in ("files", "lines", "bytes", "lost_records"):
            series.add(f"sluice_archive_{key}", found[key], topic)
    for metric, key in (("sluice_tasks", "tasks"), ("sluice_reconciled_days", "reconciled")):
        for topic, counts in books.get(key, {}).items():
            for word, count in counts.items():
                series.add(metric, count, topic, word)
    for topic, days in books.get("unpublished", {}).items():
        series.add("sluice_unpublished_days", days, topic)
    for source, count in books.get("alerts", {}).items():
        series.add("sluice_alerts_open", count, source)
