"""What the watch found out when it looked last (`monitoring.watch_progress`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluice.monitoring.series import MetricSeries, age
from sluice.monitoring.watch_progress import PARTS
from sluice.stack.progress import WATCH, AgentAnswer, WatchProgress


def read(look: WatchProgress, series: MetricSeries, now: float) -> None:
    """Add the look's figures. A part that could not be read is missing, and `sluice_part_known` says so."""
    series.add("sluice_heartbeat_age_seconds", age(look.updated_at, now), WATCH)
    for part in PARTS:
        series.add("sluice_part_known", float(getattr(look, part) is not None), part)
    for daemon, problem in (look.daemons or {}).items():
        series.add("sluice_daemon_healthy", float(not problem), daemon)
    for agent, found in (look.agents or {}).items():
        _agent(agent, found, series)
    for topic, hops in (look.lag or {}).items():
        for hop, behind in hops.items():
            series.add("sluice_lag_records", behind.records, topic, hop)
            series.add("sluice_lag_seconds", behind.seconds, topic, hop)
    _books(look.books or {}, series)


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
