"""The answers that the picture is made of, and the questions that get them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sluice.collection import deploy, lifecycle, metrics
from sluice.collection.agent import Agent
from sluice.collection.health import FAILURES
from sluice.monitoring import figures
from sluice.monitoring.flow.asks import Asks, Question, Said
from sluice.monitoring.flow.booked import TopicBooks, books
from sluice.monitoring.flow.past import FlowPast, History
from sluice.monitoring.flow.picture import FlowRun
from sluice.monitoring.lag.consumer_lag import LagReport
from sluice.monitoring.lag.measurement import lag_report
from sluice.runtime.settings import Settings
from sluice.stack import catalogue, jobs, supervisord
from sluice.stack.entry import check
from sluice.stack.progress import SpeedLayerProgress
from sluice.stack.supervisord import Program
from sluice.storage.postgres import engine
from sluice.storage.tables.alerts import Alert, open_alerts

#: For how many seconds answers are fresh: processes, what else may die, what is slow to find or to change.
PROCESSES, LIVE, LAG, RUNS, BOOKS, PAST = 1.0, 3.0, 5.0, 10.0, 15.0, 20.0
#: The longest wait for answers (seconds).
PATIENCE = 1.5
#: Agents that are asked at the same time.
AT_ONCE = 8
_DAEMON = "daemon "


@dataclass(frozen=True)
class AgentNow:
    """A Flume agent as it answers now.

    answers: None where it runs on another machine, which shows its counters to nobody else. fill: 0 to 1.
    failed: failures of its sinks since its start; None where it does not answer.
    """

    name: str
    tier: str
    answers: bool | None
    fill: float | None = None
    blocks: float | None = None
    taken: float | None = None
    failed: int | None = None


@dataclass(frozen=True)
class DagRuns:
    """The newest run of a DAG, and when one last succeeded."""

    newest: FlowRun | None
    paused: bool
    started: datetime | None = None
    succeeded: datetime | None = None


@dataclass(frozen=True)
class FlowAnswers:
    """The answers at one time. figures: as `Figures.document`; speed: of all drivers."""

    at: datetime
    daemons: Mapping[str, Said[str]]  # the problem; empty for a healthy one
    programs: Said[Mapping[str, Program]] = field(default_factory=Said)
    agents: Said[Sequence[AgentNow]] = field(default_factory=Said)
    lag: Said[LagReport] = field(default_factory=Said)
    alerts: Said[Sequence[Alert]] = field(default_factory=Said)
    books: Said[Mapping[str, TopicBooks]] = field(default_factory=Said)
    runs: Said[Mapping[str, DagRuns]] = field(default_factory=Said)
    past: Said[FlowPast] = field(default_factory=Said)
    figures: Mapping[str, Any] = field(default_factory=dict)
    speed: SpeedLayerProgress = field(default_factory=SpeedLayerProgress)


class FlowLook:
    """Looks at the instance, whenever it is called. runs: the newest runs of DAGs, which Airflow knows."""

    def __init__(self, settings: Settings, runs: Callable[[], Mapping[str, DagRuns]]) -> None:
        self._settings, self._asks = settings, Asks()
        history = History(
            engine(settings), lambda: {each.name: each.tier for each in deploy.agents(settings)}
        )
        self._questions = {
            **{f"{_DAEMON}{name}": _daemon(settings, name) for name in asked(settings)},
            "programs": Question(lambda: supervisord.programs(settings), PROCESSES),
            "agents": Question(lambda: agents(settings), LIVE),
            "lag": Question(lambda: lag_report(settings), LAG),
            "alerts": Question(lambda: open_alerts(engine(settings)), LIVE),
            "books": Question(lambda: books(engine(settings)), BOOKS),
            "runs": Question(runs, RUNS),
            "past": Question(history.read, PAST),
        }

    def __call__(self) -> FlowAnswers:
        said = self._asks.look(self._questions, PATIENCE)
        daemons = {name: said.pop(f"{_DAEMON}{name}") for name in asked(self._settings)}
        now = time.time()
        return FlowAnswers(
            at=datetime.fromtimestamp(now, UTC),
            daemons=daemons,
            figures=figures.read(self._settings, now).document(),
            speed=jobs.speed_layer(self._settings),
            **said,
        )


def asked(settings: Settings) -> list[str]:
    """The daemons whose health can be asked for: the instance's own, and others that clients reach."""
    return [
        daemon.name
        for daemon in catalogue.in_order()
        if daemon.for_clients or daemon.service not in settings.external
    ]


def agents(settings: Settings) -> list[AgentNow]:
    """Each deployed Flume agent, collectors first."""
    deployed = deploy.agents(settings)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda agent: _agent(settings, agent), deployed))


def _daemon(settings: Settings, name: str) -> Question:
    return Question(lambda: check(settings, name) or "", LIVE)


def _agent(settings: Settings, agent: Agent) -> AgentNow:
    if settings.hosts:
        return AgentNow(agent.name, agent.tier, answers=None)
    try:
        now = lifecycle.counters(settings, agent)
    except metrics.MetricsUnreachable:
        return AgentNow(agent.name, agent.tier, answers=False)
    failed = sum(sink.get(name, 0.0) for sink in now.sinks.values() for name in FAILURES)
    return AgentNow(
        agent.name,
        agent.tier,
        answers=True,
        fill=None if now.fill is None else now.fill / 100,
        blocks=now.channel.get("ChannelSize"),
        taken=now.channel.get("EventTakeSuccessCount"),
        failed=round(failed),
    )
