"""What the archiver's heartbeat says (`archive.heartbeat`)."""

from __future__ import annotations

from sluice.monitoring.series import MetricSeries, age
from sluice.stack.jobs import ARCHIVER
from sluice.stack.progress import ArchiverProgress, ArchivingState


def read(heartbeat: ArchiverProgress, series: MetricSeries, now: float) -> None:
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
