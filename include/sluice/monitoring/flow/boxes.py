"""The boxes of the flow, from what was seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from sluice.monitoring.flow.past import FlowPast, Key, counters
from sluice.monitoring.flow.picture import (
    BOXES,
    AgentRow,
    Box,
    DaemonBox,
    Fact,
    FlowState,
    Sparkline,
    Trouble,
)
from sluice.monitoring.flow.seen import AgentNow, DagRuns, FlowAnswers
from sluice.monitoring.flow.troubles import (
    RUN_BY,
    STANDS_ON,
    TIERS,
    daemon,
    figure,
    newest_run,
)
from sluice.monitoring.lag.consumer_lag import Behind, ConsumingJob
from sluice.stack.progress import CountedTopic


class BoxContent(NamedTuple):
    """What a box is made of. known: whether there was anything to judge its state by."""

    facts: list[Fact]
    lines: list[Sparkline]
    empty: str
    known: bool = True


#: Characters of an error in a box.
ERROR = 120
NO_AGENTS = "No agent is deployed. The DAG collection deploys those of include/collection.yaml."
NO_TOPIC = "No topic is read yet. The collection creates its topic, and a task names others."
NO_JOB = "It has not run yet. The DAG {} starts it: unpause it in Airflow."
NO_DAY = "No day was computed yet. The DAG nightly_batch computes each day after its midnight (UTC)."
NO_FINAL = "No day was published yet. The DAG reconcile follows each nightly run."


class Boxes:
    """Makes the boxes of one look. troubles: all of them."""

    def __init__(self, seen: FlowAnswers, troubles: Sequence[Trouble]) -> None:
        self._seen, self._troubles = seen, troubles
        self._past: FlowPast = seen.past.value or FlowPast()
        self._now = seen.at.timestamp()
        tiers = {agent.name: agent.tier for agent in seen.agents.value or ()}
        self._raw = counters(seen.figures, tiers)

    def all(self) -> tuple[Box, ...]:
        """Each of BOXES."""
        made: dict[str, Callable[[], BoxContent]] = {
            "edges": lambda: self._tier("edge"),
            "collectors": lambda: self._tier("collector"),
            "topics": self._topics,
            "speed": self._speed,
            "projector": self._projector,
            "archive": self._archive,
            "nightly": self._nightly,
            "reconcile": self._reconcile,
        }
        return tuple(self._box(key, made[key]()) for key in BOXES)

    def _box(self, key: str, made: BoxContent) -> Box:
        own = tuple(each for each in self._troubles if each.box == key)
        state = self._state(key, own, made.known and not made.empty)
        run = newest_run(self._seen, key)
        return Box(key, state, tuple(made.facts), tuple(made.lines), own, run, made.empty)

    def _state(self, key: str, own: Sequence[Trouble], known: bool) -> FlowState:
        if any(each.bad for each in own):
            return FlowState.BROKEN
        if own:
            return FlowState.LATE
        stands = [daemon(self._seen, name)[0] for name in self._seen.daemons if STANDS_ON.get(name) == key]
        return FlowState.WORKS if known and FlowState.UNKNOWN not in stands else FlowState.UNKNOWN

    def _tier(self, tier: str) -> BoxContent:
        agents = [agent for agent in self._seen.agents.value or () if agent.tier == tier]
        fills = [agent.fill for agent in agents if agent.fill is not None]
        key = ("blocks", tier)
        facts = [
            Fact("Agents", _answering(agents), "text"),
            Fact("Rate", self._past.rate(key, self._live(agents), self._now), unit="blocks/s"),
            Fact("In channels", _sum(agent.blocks for agent in agents), unit="blocks"),
            Fact("Fill", max(fills, default=None), "share"),
            Fact("Failed sends", _sum(agent.failed for agent in agents), unit="since their start"),
            Fact("Last sent", self._grew(key, self._live(agents)), "time"),
        ]
        lines = [self._rates("Rate", "blocks/s", key), self._gauges("Fill", "", ("fill", tier))]
        known = self._seen.agents.value is not None
        return BoxContent(facts, lines, NO_AGENTS if known and not agents else "", known)

    def _topics(self) -> BoxContent:
        report = self._seen.lag.recent
        # Each consumer has all partitions.
        parts = (
            [each for each in report.partitions if each.consumer == ConsumingJob.ARCHIVER] if report else []
        )
        topics = {each.topic for each in parts}
        facts = [
            Fact("Topics", float(len(topics)) if report else None),
            Fact("Rate", _sum(each.behind.arriving for each in parts), unit="records/s"),
            Fact("Records", _sum(each.end for each in parts), unit="ever"),
        ]
        lines = [self._rates("Rate", "records/s", ("hop", "records"))]
        nothing = report is not None and not topics and not report.problems
        return BoxContent(facts, lines, NO_TOPIC if nothing else "", report is not None)

    def _speed(self) -> BoxContent:
        heartbeat = figure(self._seen.figures, "sluice_heartbeat_age_seconds", job="speed_layer")
        dead = [books.dead for books in (self._seen.books.value or {}).values()]
        facts = [
            Fact("Rate", self._past.rate(("lines",), self._raw, self._now), unit="lines/s"),
            *self._behind(ConsumingJob.SPEED_LAYER),
            Fact("Dead letters", _sum(dead), unit="in 24 h"),
            Fact("Newest error", self._newest_error(), "text"),
            Fact("Last commit", self._newest(lambda topic: topic.batch_at), "time"),
        ]
        lines = [self._rates("Rate", "lines/s", ("lines",)), self._gauges("Lag", "s", ("lag", "speed"))]
        return BoxContent(facts, lines, "" if heartbeat else NO_JOB.format("speed_layer"))

    def _projector(self) -> BoxContent:
        figures = self._seen.figures
        facts = [
            Fact("Lag", _sum(figure(figures, "sluice_projector_lag_commits")), unit="commits"),
            Fact("Newest write", _sum(figure(figures, "sluice_results_written")), unit="results"),
            Fact("It took", max(figure(figures, "sluice_projection_seconds"), default=None), "seconds"),
            Fact("Last results", self._newest(projected_at), "time"),
        ]
        lines = [self._gauges("Lag", "commits", ("lag", "projector"))]
        return BoxContent(facts, lines, "", bool(figures))

    def _archive(self) -> BoxContent:
        figures, books = self._seen.figures, (self._seen.books.value or {}).values()
        heartbeat = figure(figures, "sluice_heartbeat_age_seconds", job="archiver")
        facts = [
            Fact("Rate", self._past.rate(("archived",), self._raw, self._now), unit="lines/s"),
            *self._behind(ConsumingJob.ARCHIVER),
            Fact("In memory", _sum(figure(figures, "sluice_archiver_buffered_lines")), unit="lines"),
            Fact("Lost", _sum(figure(figures, "sluice_archive_lost_records")), unit="records"),
            Fact(
                "Newest line", max((each.archived for each in books if each.archived), default=None), "time"
            ),
        ]
        lines = [self._rates("Rate", "lines/s", ("archived",)), self._gauges("Lag", "s", ("lag", "archive"))]
        return BoxContent(facts, lines, "" if heartbeat else NO_JOB.format("archive"))

    def _nightly(self) -> BoxContent:
        books = (self._seen.books.value or {}).values()
        computed = [each.computed_at for each in books if each.computed_at]
        facts = [
            self._run("nightly"),
            Fact("Newest day", max((each.computed for each in books), default="") or "none", "text"),
            Fact("Last day computed", max(computed, default=None), "time"),
            Fact("Last success", self._succeeded("nightly"), "time"),
        ]
        lines = [self._rates("Computed", "lines/s", ("hop", "computed"))]
        known = self._seen.books.value is not None
        return BoxContent(facts, lines, NO_DAY if known and not computed else "", known)

    def _reconcile(self) -> BoxContent:
        figures, books = self._seen.figures, (self._seen.books.value or {}).values()
        published = [each.published_at for each in books if each.published_at]
        facts = [
            self._run("reconcile"),
            Fact("Days that differ", _sum(figure(figures, "sluice_reconciled_days", outcome="differs"))),
            Fact("Days not published", _sum(figure(figures, "sluice_unpublished_days"))),
            Fact("Last day published", max(published, default=None), "time"),
            Fact("Last success", self._succeeded("reconcile"), "time"),
        ]
        lines = [self._gauges("Unpublished", "days", ("unpublished",))]
        known = self._seen.books.value is not None
        return BoxContent(facts, lines, NO_FINAL if known and not published else "", known)

    def _behind(self, consumer: ConsumingJob) -> list[Fact]:
        """The lag of a consumer over all topics: lines (one a record, if not known better), and seconds."""
        report, books = self._seen.lag.recent, self._seen.books.value or {}
        found = [each for each in report.by_topic() if each[1] == consumer] if report else []
        if not found:
            return [Fact("Lag", None, unit="lines"), Fact("Oldest waits", None, "seconds")]
        lines = 0.0
        for topic, _, behind in found:
            a_record = books[topic].lines_a_record if topic in books else None
            lines += behind.records * (a_record or 1.0)
        whole = Behind.of([behind for *_, behind in found])
        about = Fact("Lag", lines, unit=f"lines, about ({whole.records:,} records)" if lines else "lines")
        return [about, Fact("Oldest waits", whole.seconds, "seconds")]

    def _newest_error(self) -> str:
        """The last error since the start, of the batches or of the projector."""
        errors = [error for topic in self._seen.speed.topics.values() for error in topic.errors]
        newest = max(errors, key=lambda error: error.at, default=None)
        return "none" if newest is None else newest.message[:ERROR]

    def _live(self, agents: Sequence[AgentNow]) -> dict[tuple[Key, str], float]:
        return {(("blocks", each.tier), each.name): each.taken for each in agents if each.taken is not None}

    def _grew(self, key: Key, live: dict[tuple[Key, str], float]) -> datetime | None:
        return self._seen.at if self._past.rate(key, live, self._now) else self._past.grew(key)

    def _rates(self, label: str, unit: str, key: Key) -> Sparkline:
        return Sparkline(label, unit, self._past.rates(key, minute(self._seen)))

    def _gauges(self, label: str, unit: str, key: Key) -> Sparkline:
        return Sparkline(label, unit, self._past.gauges(key, minute(self._seen)))

    def _newest(self, time_of: Callable[[CountedTopic], datetime | None]) -> datetime | None:
        """The newest of a time that the speed layer's progress has of each topic."""
        times = map(time_of, self._seen.speed.topics.values())
        return max((at for at in times if at), default=None)

    def _runs(self, box: str) -> DagRuns | None:
        return (self._seen.runs.value or {}).get(RUN_BY[box])

    def _run(self, box: str) -> Fact:
        runs = self._runs(box)
        if runs is None:
            return Fact("Newest run", None, "text")
        said = runs.newest.state if runs.newest else "none yet"
        return Fact("Newest run", f"{said}, its DAG is paused" if runs.paused else said, "text")

    def _succeeded(self, box: str) -> datetime | None:
        runs = self._runs(box)
        return None if runs is None else runs.succeeded


def daemons(seen: FlowAnswers) -> tuple[DaemonBox, ...]:
    """Each daemon that could be asked."""
    programs = seen.programs.recent or {}
    found = []
    for name in seen.daemons:
        state, problem = daemon(seen, name)
        started = datetime.fromtimestamp(programs[name].started, seen.at.tzinfo) if name in programs else None
        found.append(DaemonBox(name, state, problem, started))
    return tuple(found)


def agents(seen: FlowAnswers) -> tuple[AgentRow, ...]:
    """Each Flume agent."""
    past: FlowPast = seen.past.value or FlowPast()
    return tuple(
        AgentRow(
            each.name,
            TIERS[each.tier],
            each.answers,
            each.fill,
            each.blocks,
            None
            if each.taken is None
            else past.rate(
                ("agent", each.name), {(("agent", each.name), ""): each.taken}, seen.at.timestamp()
            ),
            each.failed,
        )
        for each in seen.agents.value or ()
    )


def minute(seen: FlowAnswers) -> float:
    """The end of the minute of a look: until when its small lines go."""
    return (seen.at.timestamp() // 60 + 1) * 60


def projected_at(topic: CountedTopic) -> datetime | None:
    """When results of the topic were written last."""
    return topic.projection.at if topic.projection else None


def _answering(agents: Sequence[AgentNow]) -> str | None:
    if not agents or any(agent.answers is None for agent in agents):
        return f"{len(agents)}" if agents else None
    return f"{sum(bool(agent.answers) for agent in agents)} of {len(agents)} answer"


def _sum(values: object) -> float | None:
    """The sum of the values that are known; None if none is."""
    known = [value for value in values if value is not None]  # type: ignore[attr-defined]
    return float(sum(known)) if known else None
