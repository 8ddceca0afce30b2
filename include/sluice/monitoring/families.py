"""Every metric that `/sluice/metrics` shows: its name, kind, labels and meaning.

docs/monitoring.md lists them, and a test holds it, the dashboard and the alert rules to this list. The values
of labels are names of topics, tasks, daemons and agents, and words of the platform's own: never text from
lines, so their number is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True)
class MetricFamily:
    """A metric; one whose kind is counter begins at 0 again when its process starts again."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str


_SPEED = (
    MetricFamily("sluice_lines_total", "counter", ("topic", "outcome"), "Lines: counted, doubled, dead."),
    MetricFamily("sluice_bytes_total", "counter", ("topic",), "Bytes of the lines that came."),
    MetricFamily("sluice_batches_total", "counter", ("topic",), "Batches that were committed."),
    MetricFamily(
        "sluice_pass_cpu_seconds_total", "counter", ("topic",), "CPU time of the pass over the lines."
    ),
    MetricFamily(
        "sluice_freshness_seconds",
        "histogram",
        ("topic",),
        "How long lines waited from their arrival in Kafka to their commit.",
    ),
    MetricFamily(
        "sluice_batch_lap_seconds", "gauge", ("topic", "lap"), "Duration of the newest batch's steps."
    ),
    MetricFamily(
        "sluice_blocks_written", "gauge", ("topic",), "Blocks of state that the newest batch wrote."
    ),
    MetricFamily("sluice_dead_lines_total", "counter", ("topic", "reason"), "Dead letters by reason."),
    MetricFamily("sluice_task_lines_total", "counter", ("topic", "task"), "Lines that a task counted."),
    MetricFamily(
        "sluice_task_skipped_lines_total",
        "counter",
        ("topic", "task"),
        "Lines that a task counted and that had no measure for its metrics.",
    ),
    MetricFamily(
        "sluice_unmatched_lines_total",
        "counter",
        ("topic",),
        "Lines with a time that are not of the topic's format.",
    ),
    MetricFamily(
        "sluice_task_unmatched_lines_total",
        "counter",
        ("topic", "task"),
        "Lines with a time that a task skipped, because it takes nothing from them.",
    ),
    MetricFamily(
        "sluice_task_too_long_lines_total",
        "counter",
        ("topic", "task"),
        "Lines that a task skipped, because the value of a dimension is too long.",
    ),
    MetricFamily("sluice_imbalance", "gauge", ("topic", "task"), "max / mean - 1 of the workers' loads."),
    MetricFamily(
        "sluice_projector_lag_commits", "gauge", ("topic",), "Commits without results in HBase yet."
    ),
    MetricFamily("sluice_results_written", "gauge", ("topic",), "Results that the newest projection wrote."),
    MetricFamily("sluice_projection_seconds", "gauge", ("topic",), "Duration of the newest projection."),
)
_ARCHIVER = (
    MetricFamily("sluice_archiver_lines_total", "counter", ("topic",), "Lines that the archiver archived."),
    MetricFamily("sluice_archiver_files_total", "counter", ("topic",), "Files that the archiver wrote."),
    MetricFamily("sluice_archiver_buffered_lines", "gauge", ("topic",), "Lines that are in no file yet."),
)
_JOBS = (
    MetricFamily("sluice_heartbeat_age_seconds", "gauge", ("job",), "Time since a job said that it lives."),
    MetricFamily(
        "sluice_topic_works", "gauge", ("job", "topic"), "1 if the job processes the topic, else 0."
    ),
)
_WATCH = (
    MetricFamily("sluice_part_known", "gauge", ("part",), "1 if the watch could read this part, else 0."),
    MetricFamily("sluice_daemon_healthy", "gauge", ("daemon",), "1 if the daemon is healthy, else 0."),
    MetricFamily("sluice_agent_answers", "gauge", ("agent",), "1 if the Flume agent answers, else 0."),
    MetricFamily(
        "sluice_channel_fill_ratio", "gauge", ("agent",), "How full the agent's channel is, 0 to 1."
    ),
    MetricFamily("sluice_channel_blocks", "gauge", ("agent",), "Blocks of lines in the agent's channel."),
    MetricFamily(
        "sluice_agent_blocks_total",
        "counter",
        ("agent", "way"),
        "Blocks put into the agent's channel and taken from it; what is sent again counts again.",
    ),
    MetricFamily(
        "sluice_lag_records", "gauge", ("topic", "hop"), "Records in Kafka that a hop must still process."
    ),
    MetricFamily(
        "sluice_lag_seconds",
        "gauge",
        ("topic", "hop"),
        "How long the oldest record that a hop must still process has waited, of all partitions; 0 if none "
        "waits.",
    ),
    MetricFamily("sluice_archive_files", "gauge", ("topic",), "Files in the archive."),
    MetricFamily("sluice_archive_lines", "gauge", ("topic",), "Lines in the archive."),
    MetricFamily("sluice_archive_bytes", "gauge", ("topic",), "Bytes of the archive's files."),
    MetricFamily("sluice_archive_lost_records", "gauge", ("topic",), "Records that expired unarchived."),
    MetricFamily("sluice_tasks", "gauge", ("topic", "state"), "Tasks by state: active, paused, failed."),
    MetricFamily("sluice_alerts_open", "gauge", ("source",), "Open alerts, as in `sluice status`."),
    MetricFamily(
        "sluice_reconciled_days",
        "gauge",
        ("topic", "outcome"),
        "Days by the outcome of their last comparison, of those compared in the last 31 days.",
    ),
    MetricFamily("sluice_unpublished_days", "gauge", ("topic",), "Days that are computed and not published."),
    MetricFamily(
        "sluice_disk_free_bytes", "gauge", ("disk",), "Bytes that are free on the disk of a folder."
    ),
    MetricFamily("sluice_disk_size_bytes", "gauge", ("disk",), "Bytes that the disk has."),
    MetricFamily("sluice_disk_reserve_bytes", "gauge", ("disk",), "Free bytes below which intake stops."),
    MetricFamily(
        "sluice_held", "gauge", ("what",), "1 while intake, or the layers, are held by a full disk, else 0."
    ),
)
_SELF = (
    MetricFamily(
        "sluice_series_left_out",
        "gauge",
        ("metric",),
        "Series over the limit, not shown.",
    ),
)

FAMILIES: dict[str, MetricFamily] = {
    family.name: family for family in (*_SPEED, *_ARCHIVER, *_JOBS, *_WATCH, *_SELF)
}
