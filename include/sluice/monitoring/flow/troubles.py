"""What hurts, and where: open alerts, sick daemons, silent processes, and hops that are late.

What is late has the bounds of the alert rules in include/monitoring/alerts.yml, but hurts at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain

from sluice.monitoring.flow.asks import OLD, Said
from sluice.monitoring.flow.picture import FlowRun, FlowState, Trouble
from sluice.monitoring.flow.seen import DagRuns, FlowAnswers
from sluice.monitoring.lag.consumer_lag import ConsumingJob
from sluice.storage.tables import recounts
from sluice.storage.tables.alerts import Alert
from sluice.tasks.versions import ALERTS as TASKS

#: Paragraphs of the runbook.
DAEMON, SPEED, LAG = "a-daemon-lives-and-does-not-work", "the-speed-layer-is-stuck", "lag"
RESULTS, TASK, WATCH = "results-that-lag", "a-task-failed", "the-watch-is-silent"
AGENT, DAY, NIGHT = "a-flume-agent-fails", "a-failed-reconciliation", "a-night-that-failed-for-one-topic"
RETENTION, FILL, UNITS = "retention", "fill-a-new-task-backwards", "units-and-their-hosts"
FILES = "the-archives-files"
HOST, LOST_STATE = "a-host-does-not-answer", "state-that-was-lost"
CERTIFICATE, DISK = "the-certificate-of-the-doors-ends", "a-full-disk"
#: The box that stands on a daemon; the others stand for themselves.
STANDS_ON = {
    "kafka": "topics",
    "postgres": "speed",
    "hbase": "projector",
    "hbase-thrift": "projector",
    "namenode": "archive",
    "datanode": "archive",
    "metastore": "nightly",
    "sql": "reconcile",
}
#: The DAG that runs a box.
RUN_BY = {
    "edges": "collection",
    "collectors": "collection",
    "speed": "speed_layer",
    "projector": "speed_layer",
    "archive": "archive",
    "nightly": "nightly_batch",
    "reconcile": "reconcile",
}
#: The box and the paragraph of each DAG.
OF_DAG = {
    "collection": ("collectors", AGENT),
    "placement": ("collectors", UNITS),
    "speed_layer": ("speed", SPEED),
    "archive": ("archive", LAG),
    "nightly_batch": ("nightly", NIGHT),
    "retention": ("nightly", RETENTION),
    "compaction": ("archive", FILES),
    "task_backfill": ("nightly", FILL),
    "rebuild": ("speed", LOST_STATE),
    "reconcile": ("reconcile", DAY),
}
#: The box and the paragraph of each source of alerts, but of collection and airflow.
OF_SOURCE = {
    "archive": ("archive", LAG),
    "job archiver": ("archive", LAG),
    "job speed_layer": ("speed", SPEED),
    recounts.ALERTS: ("speed", LOST_STATE),
    TASKS: ("speed", TASK),
    "nightly": ("nightly", TASK),
    "reconcile": ("reconcile", DAY),
    "open_periods": ("reconcile", DAY),
    "placement": ("collectors", UNITS),
    "hosts": ("collectors", HOST),
    "hdfs": ("archive", FILES),
    "tls": ("", CERTIFICATE),
    "disks": ("", DISK),
}
TIERS = {"edge": "edges", "collector": "collectors"}
#: Seconds without a write after which a process is silent: one that writes every second or two; and the
#: watch, which looks every 20 s.
SILENT, WATCH_SILENT = 10.0, 90.0
#: Seconds that a daemon may take to answer; its first answer may take twice as long.
SLOW = 6.0
#: What supervisord's states mean in which a daemon does not work.
DOWN = {
    "STARTING": "its process has just started",
    "BACKOFF": "its process ended at its start, and is tried again",
    "FATAL": "its process ended at its start too often, and is not tried again",
    "STOPPING": "its process is being stopped",
    "STOPPED": "its process is stopped",
    "EXITED": "its process has ended",
}
#: Late: seconds of the speed layer and of the archive, commits of the projector, fill of a channel.
COUNTS_LATE, ARCHIVE_LATE, RESULTS_LATE, FULL = 60.0, 900.0, 60, 0.8
_FAILED_RUN = re.compile(r" failed in run (\S{1,250}): ")


def troubles(seen: FlowAnswers) -> list[Trouble]:
    """All that hurts; what is broken comes first."""
    parts = (_alerts(seen), _daemons(seen), _silent(seen), _agents(seen), _late(seen))
    return sorted(chain(*parts), key=lambda each: not each.bad)


def health(said: Said[str]) -> tuple[FlowState, str]:
    """The state that a check of its health gives a daemon, and what is wrong with it."""
    first = said.value is None
    if said.waiting > (2 * SLOW if first else SLOW):
        return FlowState.BROKEN, f"has not answered for {said.waiting:.0f} s"
    if said.error:
        return FlowState.BROKEN, said.error
    if said.value is None or (said.waiting and said.age > OLD):
        return FlowState.UNKNOWN, "is being asked"
    return (FlowState.BROKEN, said.value) if said.value else (FlowState.WORKS, "")


def daemon(seen: FlowAnswers, name: str) -> tuple[FlowState, str]:
    """A daemon's state, and what is wrong with it.

    A short outage can fall between two checks of its health; its supervisor tells of it too.
    """
    program = (seen.programs.recent or {}).get(name)
    if program is not None and program.state in DOWN:
        return FlowState.BROKEN, DOWN[program.state]
    return health(seen.daemons[name])


def figure(figures: Mapping[str, list[list[object]]], metric: str, **labels: str) -> list[float]:
    """The values of a metric's series that have these labels."""
    return [
        float(value)  # type: ignore[arg-type]
        for found, value in figures.get(metric, ())
        if labels.items() <= found.items()  # type: ignore[attr-defined]
    ]


def newest_run(seen: FlowAnswers, box: str) -> FlowRun | None:
    """The newest run of the DAG that runs the box."""
    runs: Mapping[str, DagRuns] = seen.runs.value or {}
    found = runs.get(RUN_BY.get(box, ""))
    return None if found is None else found.newest


def _alerts(seen: FlowAnswers) -> Iterator[Trouble]:
    tiers = {agent.name: agent.tier for agent in seen.agents.value or ()}
    for alert in seen.alerts.value or ():
        box, section = _place(alert, tiers)
        run = newest_run(seen, box)
        if alert.source == "airflow":
            dag = alert.name.partition(".")[0]
            failed = _FAILED_RUN.search(alert.message)
            run = FlowRun(dag, failed[1], "failed") if failed else run
        topic = alert.name.partition(": ")[0] if alert.source == recounts.ALERTS else ""
        said, bad = alert.message or alert.name, alert.source != TASKS
        yield Trouble(box, said, section, bad=bad, since=alert.raised_at, run=run, recounted=topic)


def _place(alert: Alert, tiers: Mapping[str, str]) -> tuple[str, str]:
    """The box and the paragraph of an alert."""
    if alert.source == "collection":
        agent, _, rule = alert.name.partition(": ")
        section = LAG if rule in ("channel", "sinks") else AGENT
        return TIERS.get(tiers.get(agent, ""), "collectors"), section
    if alert.source == "airflow":
        return OF_DAG.get(alert.name.partition(".")[0], ("", ""))
    return OF_SOURCE.get(alert.source, ("", ""))


def _daemons(seen: FlowAnswers) -> Iterator[Trouble]:
    for name in seen.daemons:
        state, problem = daemon(seen, name)
        if state == FlowState.BROKEN:
            yield Trouble(STANDS_ON.get(name, ""), f"{name}: {problem}", DAEMON)


def _silent(seen: FlowAnswers) -> Iterator[Trouble]:
    """Processes that write down that they live, and have not lately."""
    for job, box, section, most in (
        ("speed_layer", "speed", SPEED, SILENT),
        ("archiver", "archive", LAG, SILENT),
        ("watch", "", WATCH, WATCH_SILENT),
    ):
        for age in figure(seen.figures, "sluice_heartbeat_age_seconds", job=job):
            if age > most:
                message = f"{job} has shown no sign of life for {age:,.0f} s"
                yield Trouble(box, message, section, run=newest_run(seen, box))


def _agents(seen: FlowAnswers) -> Iterator[Trouble]:
    """Agents that do not answer; those with an alert are told of already."""
    told = {alert.name.partition(":")[0] for alert in seen.alerts.value or () if alert.source == "collection"}
    for agent in seen.agents.value or ():
        box = TIERS[agent.tier]
        if agent.name in told:
            continue
        if agent.answers is False:
            yield Trouble(box, f"{agent.name} does not answer", AGENT, run=newest_run(seen, box))
        elif agent.fill is not None and agent.fill >= FULL:
            yield Trouble(box, f"{agent.name}: its channel is {agent.fill:.0%} full", LAG, bad=False)


def _late(seen: FlowAnswers) -> Iterator[Trouble]:
    report = seen.lag.recent
    for topic, consumer, behind in report.by_topic() if report else ():
        box, most = {
            ConsumingJob.SPEED_LAYER: ("speed", COUNTS_LATE),
            ConsumingJob.ARCHIVER: ("archive", ARCHIVE_LATE),
        }[consumer]
        if behind.seconds is not None and behind.seconds > most:
            message = f"{topic}: {behind.records:,} records wait, the oldest for {behind.seconds:,.0f} s"
            yield Trouble(box, message, LAG, bad=False)
    for topic, problem in (report.problems if report else {}).items():
        yield Trouble("topics", f"{topic}: {problem}", LAG, bad=False)
    for commits in figure(seen.figures, "sluice_projector_lag_commits"):
        if commits > RESULTS_LATE:
            message = f"{commits:,.0f} commits have no results in HBase yet"
            yield Trouble("projector", message, RESULTS, bad=False)
