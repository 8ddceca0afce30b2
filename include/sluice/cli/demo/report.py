"""The demo's report as a table and as JSON: whether every hop and every task agrees."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from sluice.cli.audit import hop_table, notes
from sluice.cli.output.format import table
from sluice.cli.output.grouping_text import decisions, hot_keys
from sluice.quality.hops import Hops, some
from sluice.speed.routed.report import GroupingReport

MIB = 1 << 20
#: How many hot keys of a task are shown.
HOT = 5
#: How many days are named.
DAYS_SHOWN = 10
NIGHT = "nightly_batch"


@dataclass(frozen=True)
class MetricTotal:
    """One metric of a task over all its series together, in both layers.

    `online` and `offline` are None for a metric that has no total, such as an average.
    """

    metric: str
    results: int
    online: int | float | None
    offline: int | float | None
    differing: int
    rule: str  # by which two results agree


@dataclass(frozen=True)
class TaskReport:
    """One task: its series, the totals of its first metric, and how many results differ."""

    name: str
    version: int
    series: int
    results: int
    online_total: int | float | None
    offline_total: int | float | None
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
class DemoReport:
    hops: Hops
    tasks: list[TaskReport]
    failures: list[str]  # runs that did not succeed, days that were not published
    seconds: Mapping[str, float]
    peak_memory_bytes: int
    urls: Mapping[str, str]
    login: Mapping[str, str]
    grouping: list[GroupingReport] = field(default_factory=list)
    move: MoveReport | None = None  # of a demo over several hosts
    computed: Sequence[date] = ()  # the days that both layers counted
    to_come: Mapping[date, int] = field(default_factory=dict)  # lines by day, of days that are not over
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
            "days": [str(day) for day in self.computed],
            "days_to_come": {str(day): lines for day, lines in self.to_come.items()},
            "grouping": [report.model_dump(mode="json") for report in self.grouping],
            **({"move": asdict(self.move)} if self.move else {}),
            "seconds": {**self.seconds, "total": round(sum(self.seconds.values()), 1)},
            "peak_memory_bytes": self.peak_memory_bytes,  # the sum of all processes' PSS
            "urls": dict(self.urls),
            "login": dict(self.login),
        }

    @property
    def verdict(self) -> str:
        """Whether the layers agree, and of which days that is known."""
        if not self.computed:
            return "NOT COMPARED: no day was computed, see above."
        if not self.agrees:
            return "DOES NOT AGREE: see above."
        if not self.to_come:
            return "AGREES: online and offline results are the same."
        return (
            f"AGREES on the days that are over ({len(self.computed)}): online and offline results are the "
            f"same. The days that are not over ({len(self.to_come)}) are left out: see above."
        )

    @property
    def left_out(self) -> list[str]:
        """Which days were not compared, and why."""
        if not self.to_come:
            return []
        return [
            f"LEFT OUT, because they are not over (UTC): {lines_by_day(self.to_come)}. Results of periods "
            f"that touch these days are not compared; {NIGHT} computes a day once it is over\n"
        ]

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
        which = " that was compared" if self.to_come else ""
        lines += [f"{agreeing} of {len(self.tasks)} tasks agree in every result{which}\n"]
        lines += [f"DIFFERS: {example}\n" for t in self.tasks for example in t.examples]
        lines += [f"{note}\n" for note in notes(self.hops)]
        lines += self.left_out
        lines += [f"FAILED: {failure}\n" for failure in [*self.failures, *self.set_aside]]
        hosts = [self.move.text()] if self.move else []
        return "\n".join([*hosts, *lines[:2], *self._grouping()]) + "\n" + "".join(lines[2:])

    def _grouping(self) -> list[str]:
        """What each task is grouped by and why, and the hottest keys of those that have workers."""
        if not self.grouping:
            return []
        routed = [report for report in self.grouping if report.load]
        return [decisions(self.grouping), *([hot_keys(routed, HOT)] if routed else [])]


def lines_by_day(days: Mapping[date, int]) -> str:
    """The first days, each with its number of lines."""
    return some([f"{day}: {lines:,} line{'s' * (lines != 1)}" for day, lines in days.items()], DAYS_SHOWN)
