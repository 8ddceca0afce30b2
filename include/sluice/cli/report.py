"""The demo's report as a table and as JSON: whether every hop and every task agrees."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sluice.cli.audit import hop_table, notes
from sluice.cli.format import table
from sluice.cli.grouping_text import decisions, hot_keys
from sluice.quality.hops import Hops
from sluice.results.counted import Number, Value, counted, differences
from sluice.runtime.settings import Settings
from sluice.speed.routed.report import GroupingReport

MIB = 1 << 20
#: At most this many differing results of a task are named; the table has their number.
SHOWN = 10
#: How many hot keys of a task are shown.
HOT = 5
#: How many characters of a list are shown.
LONGEST = 120


@dataclass(frozen=True)
class MetricTotal:
    """One metric of a task over all its series together, in both layers.

    `online` and `offline` are None for a metric that has no total, such as an average.
    """

    metric: str
    results: int
    online: Number | None
    offline: Number | None
    differing: int
    rule: str  # by which two results agree


@dataclass(frozen=True)
class TaskReport:
    """One task: its series, the totals of its first metric, and how many results differ."""

    name: str
    version: int
    series: int
    results: int
    online_total: Number | None
    offline_total: Number | None
    differing: int
    metrics: list[MetricTotal]
    examples: list[str]
    error: str | None = None  # why the task was set aside

    @property
    def agrees(self) -> bool:
        return not self.differing and self.error is None


@dataclass(frozen=True)
class MoveReport:
    """Which host ran what, and how one collector moved while lines came."""

    front_ends: dict[str, str]  # hosts by name
    collectors: dict[str, str]  # before the move
    moved: str
    to: str
    seconds: float
    lines: int  # written meanwhile
    pauses: dict[str, float]  # the longest time without a block in Kafka, by front-end, in seconds

    def text(self) -> str:
        units = {
            **self.front_ends,
            **self.collectors,
            self.moved: f"{self.collectors[self.moved]} -> {self.to}",
        }
        pauses = ", ".join(
            f"{seconds:g} s without a block of {name}" for name, seconds in self.pauses.items()
        )
        return (
            table(["agent", "host"], [[name, host] for name, host in units.items()])
            + f"\n{self.moved} moved in {self.seconds:g} s, in which {self.lines:,} lines were written; the "
            f"longest pauses in Kafka: {pauses}\n"
        )


@dataclass
class Report:
    hops: Hops
    tasks: list[TaskReport]
    failures: list[str]  # runs that did not succeed, days that were not published
    seconds: Mapping[str, float]
    peak_memory_bytes: int
    urls: Mapping[str, str]
    login: Mapping[str, str]
    grouping: list[GroupingReport] = field(default_factory=list)
    move: MoveReport | None = None  # of a demo over several hosts
    agrees: bool = field(init=False)

    def __post_init__(self) -> None:
        whole = self.hops.ok and not self.hops.in_flight and not self.failures
        self.agrees = whole and bool(self.tasks) and all(task.agrees for task in self.tasks)

    def document(self) -> dict[str, Any]:
        """What report.json holds; `problems` is there only if there are any."""
        problems = [*self.hops.in_flight, *self.hops.disagreements, *self.failures, *self.set_aside]
        return {
            **self.hops.counts(),
            "tasks": [asdict(t) for t in self.tasks],
            "agrees": self.agrees,
            **({"problems": problems} if problems else {}),
            "grouping": [report.model_dump(mode="json") for report in self.grouping],
            **({"move": asdict(self.move)} if self.move else {}),
            "seconds": {**self.seconds, "total": round(sum(self.seconds.values()), 1)},
            "peak_memory_bytes": self.peak_memory_bytes,  # the sum of all processes' PSS
            "urls": dict(self.urls),
            "login": dict(self.login),
        }

    @property
    def set_aside(self) -> list[str]:
        return [f"task {task.name} was set aside: {task.error}" for task in self.tasks if task.error]

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(self.document(), indent=1) + "\n")

    def text(self) -> str:
        tasks = [
            [t.name, t.series, m.metric, m.results, m.online, m.offline, m.rule, m.differing]
            for t in self.tasks
            for m in t.metrics
        ]
        totals = ["results", "online_total", "offline_total", "agree if", "differing"]
        lines = [hop_table(self.hops), table(["task", "series", "metric", *totals], tasks)]
        agreeing = sum(task.agrees for task in self.tasks)
        lines += [f"{agreeing} of {len(self.tasks)} tasks agree in every result\n"]
        lines += [f"DIFFERS: {example}\n" for t in self.tasks for example in t.examples]
        lines += [f"{note}\n" for note in notes(self.hops)]
        lines += [f"FAILED: {failure}\n" for failure in [*self.failures, *self.set_aside]]
        hosts = [self.move.text()] if self.move else []
        return "\n".join([*hosts, *lines[:2], *self._grouping()]) + "\n" + "".join(lines[2:])

    def _grouping(self) -> list[str]:
        """What each task is grouped by and why, and the hottest keys of those that have workers."""
        if not self.grouping:
            return []
        routed = [report for report in self.grouping if report.load]
        return [decisions(self.grouping), *([hot_keys(routed, HOT)] if routed else [])]


def compare_task(settings: Settings, name: str, error: str | None = None) -> TaskReport:
    """Compare every online result of a task (as the speed layer left it) with the offline one.

    `error`: why the task was set aside, if it was.
    """
    from sluice.results.agreement import how

    online, offline = counted(settings, name, "online"), counted(settings, name, "offline")
    wrong = list(differences(online, offline))
    metrics = [
        MetricTotal(
            metric=m,
            results=sum(m in found for found in online.values.values()),
            online=online.over_all(m),
            offline=offline.over_all(m),
            differing=sum(d.metric == m for d in wrong),
            rule=how(m),
        )
        for m in online.metrics
    ]
    examples = [
        f"{name} {d.metric} of {'/'.join(d.series[1]) or 'all'} at {d.series[0]}: "
        f"online {short(d.online)}, offline {short(d.offline)}"
        for d in wrong[:SHOWN]
    ]
    return TaskReport(
        name=name,
        version=online.task.version,
        series=len({dims for _, dims in online.values.keys() | offline.values.keys()}),
        results=sum(map(len, online.values.values())),
        online_total=metrics[0].online,
        offline_total=metrics[0].offline,
        differing=len(wrong),
        metrics=metrics,
        examples=examples,
        error=error,
    )


def short(value: Value | None) -> str:
    """A value in one line; of a long list only its beginning."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
