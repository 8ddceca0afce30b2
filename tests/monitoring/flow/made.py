"""A made-up platform as a look finds it: two agents of each tier, one topic, two tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sluice.monitoring import sampled
from sluice.monitoring.flow.asks import Said
from sluice.monitoring.flow.booked import TopicBooks
from sluice.monitoring.flow.past import FlowPast, Minute, counters, gauges, grown
from sluice.monitoring.flow.picture import FlowRun
from sluice.monitoring.flow.seen import AgentNow, DagRuns, FlowAnswers
from sluice.monitoring.lag.consumer_lag import Behind, LagReport, PartitionLag
from sluice.stack.catalogue import DAEMONS
from sluice.stack.progress import (
    CountedTopic,
    CountingState,
    DriverState,
    ProjectionProgress,
    SpeedLayerProgress,
)
from sluice.stack.supervisord import Program
from sluice.storage.tables.alerts import Alert
from tests.cli.routed import ROUTED, document

AT = datetime(2026, 11, 25, 12, tzinfo=UTC)
TIERS = {"web1": "edge", "web2": "edge", "collector1": "collector"}
SECOND = timedelta(seconds=1)
DAGS = ("collection", "speed_layer", "archive", "nightly_batch", "reconcile")


def figures(minute: int = 0, **changes: Any) -> dict[str, Any]:
    """A document of figures; its counters grow by 60 a minute for each agent, topic and outcome."""
    count = 60.0 * minute
    topic = {"topic": "logs"}
    return {
        "sluice_heartbeat_age_seconds": [[{"job": job}, 1.0] for job in ("speed_layer", "archiver", "watch")],
        "sluice_agent_blocks_total": [[{"agent": name, "way": "taken"}, count] for name in TIERS],
        "sluice_channel_fill_ratio": [[{"agent": name}, 0.25] for name in TIERS],
        "sluice_lines_total": [
            [{**topic, "outcome": "counted"}, 10 * count],
            [{**topic, "outcome": "doubled"}, count],
        ],
        "sluice_archiver_lines_total": [[topic, 10 * count]],
        "sluice_archiver_buffered_lines": [[topic, 12.0]],
        "sluice_freshness_seconds": [
            [topic, {"lines": count, "sum": 1.0, "upto": {"0.5": count, "2": count / 20, "+Inf": 0}}]
        ],
        "sluice_lag_seconds": [[{**topic, "hop": hop}, 1.5] for hop in ("speed", "archive")],
        "sluice_projector_lag_commits": [[topic, 1.0]],
        "sluice_results_written": [[topic, 90.0]],
        "sluice_projection_seconds": [[topic, 0.035]],
        "sluice_unpublished_days": [[topic, 1.0]],
        "sluice_imbalance": [[{**topic, "task": "routed"}, 0.01]],
        sampled.HOPS: [[{**topic, "hop": hop}, 1000 + count] for hop in ("records", "online", "archived")],
        sampled.HOT_KEYS: [[{**topic, "task": "routed", "key": ["/a"]}, 0.125]],
        sampled.WORKER_LOAD: [[{**topic, "task": "routed", "worker": 0}, 0.6]],
        **changes,
    }


def past(minutes: int = 90, **changes: Any) -> FlowPast:
    """As many minutes until AT, all alike."""
    found, last = [], []
    for number in range(minutes + 1):
        at = AT.timestamp() - 60.0 * (minutes - number)
        document = figures(number, **changes)
        raw = counters(document, TIERS)
        if last:
            found.append(Minute(at, 60.0, grown(last[-1][1], raw), gauges(document, TIERS)))
        last.append((at, raw))
    return FlowPast(tuple(found), tuple(last[-3:]))


def speed() -> SpeedLayerProgress:
    """The speed layer's progress."""
    at = AT - 2 * SECOND
    reports = {"3v2": document("combined"), "4v1": ROUTED}
    topic = CountedTopic(
        state=CountingState.COUNTING,
        batch_at=at,
        projection=ProjectionProgress(at=at, seq=1),
        grouping=reports,
    )
    return SpeedLayerProgress(state=DriverState.RUNNING, topics={"logs": topic})


def report(seconds: float = 1.5, **problems: str) -> LagReport:
    """Both consumers of one topic with two partitions, four records behind in each."""
    parts = tuple(
        PartitionLag("logs", consumer, number, "x", 100, 104, Behind(4, seconds, 5.0, 5.0))
        for consumer in ("archiver", "speed_layer")
        for number in (0, 1)
    )
    return LagReport(AT, parts, (), problems)


def books() -> dict[str, TopicBooks]:
    hops = {"records": 208, "online": 2000, "archived": 2080, "archived_records": 208, "computed": 1900}
    published = ("2026-11-24", AT - 3600 * SECOND, "2026-11-23", AT - 86_400 * SECOND)
    return {"logs": TopicBooks(hops, 7, AT - 20 * SECOND, *published)}


def runs() -> dict[str, DagRuns]:
    return {
        dag: DagRuns(
            FlowRun(dag, f"scheduled__{dag}", "running"), False, AT - 60 * SECOND, AT - 3600 * SECOND
        )
        for dag in DAGS
    }


def agents(**changes: Any) -> list[AgentNow]:
    """All agents; the changes are of web1."""
    found = [AgentNow(name, tier, True, 0.25, 5.0, 5_400.0, 0) for name, tier in TIERS.items()]
    return [replace(found[0], **changes), *found[1:]]


def seen(**changes: Any) -> FlowAnswers:
    """All is well, except for the changes."""
    program = {name: Program(name, "RUNNING", 1, round(AT.timestamp()) - 300, 0, "") for name in DAEMONS}
    whole = FlowAnswers(
        at=AT,
        daemons=healthy(),
        programs=Said(program),
        agents=Said(agents()),
        lag=Said(report()),
        alerts=Said([]),
        books=Said(books()),
        runs=Said(runs()),
        past=Said(past()),
        figures=figures(90),
        speed=speed(),
    )
    return replace(whole, **changes)


def healthy(**problems: str) -> Mapping[str, Said[str]]:
    """Every daemon, with the problems of some."""
    sick = {name.replace("_", "-"): problem for name, problem in problems.items()}
    return {name: Said(sick.get(name, "")) for name in DAEMONS}


def nothing() -> FlowAnswers:
    """A platform that never ran."""
    return FlowAnswers(at=AT, daemons={name: Said() for name in DAEMONS})


def hurting(hostile: str) -> FlowAnswers:
    """Some of it is broken, some is late, and every text is hostile."""
    hot = {"key": [hostile], "share": 0.5, "error": 0.0, "workers": [0]}
    reports = {"4v1": {**ROUTED, "hot": [hot]}}
    whole = speed()
    whole.topics["logs"].grouping = reports
    alerts = [
        Alert("reconcile", hostile, hostile, AT - 3600 * SECOND),
        Alert("airflow", "nightly_batch.batch", f"nightly_batch.batch failed in run {hostile}: x", AT),
        Alert("collection", "web1: channel", "web1: channel 85 % full", AT),
    ]
    return seen(
        daemons=healthy(kafka=hostile),
        alerts=Said(alerts),
        lag=Said(report(70.0)),
        speed=whole,
    )
