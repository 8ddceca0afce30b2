"""What the archiver's heartbeat says (`archive.heartbeat`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluice.monitoring.series import MetricSeries

JOB = "archiver"


def read(heartbeat: Mapping[str, Any], series: MetricSeries, now: float) -> None:
    """Add the heartbeat's figures; those of a topic are the sums over its partitions."""
    series.add("sluice_heartbeat_age_seconds", max(0.0, now - heartbeat["updated_at"]), JOB)
    for topic, found in heartbeat.get("topics", {}).items():
        series.add("sluice_topic_works", float(found.get("state") == "archiving"), JOB, topic)
        partitions = found.get("partitions", {}).values()
        for metric, key in (
            ("sluice_archiver_lines_total", "lines"),
            ("sluice_archiver_files_total", "files"),
            ("sluice_archiver_buffered_lines", "buffered"),
        ):
            series.add(metric, sum(each[key] for each in partitions), topic)
