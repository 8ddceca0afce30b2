"""From a result to its lines: how long a person waits, on the archive of a day."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sluice.lines.answer import find
from sluice.lines.query import LinesQuery
from sluice.results.layers import StoredLayers
from sluice.results.query import Query, Where
from sluice.results.reader import read
from sluice.runtime.settings import Settings
from sluice.tasks import TaskSpec, parse_documents
from sluice_lab.bench import stack
from sluice_lab.bench.archived_day import PARTITIONS, ArchiveSize, archived_day
from sluice_lab.bench.outcome import Bar, Cell, Outcome, Table

NAME, DAYS = "lines_behind", "days"
FULL = ArchiveSize(lines=1_000_000, files=480, old_files=500_000)
QUICK = ArchiveSize(lines=100_000, files=60, old_files=10_000)
#: Random results of each task. The lines of a day's result are in more than a thousand files.
RESULTS, QUICK_RESULTS = {"minutes": 40, "hours": 40, DAYS: 12}, {"minutes": 8, "hours": 8, DAYS: 3}
LIMIT_SECONDS = 5.0
SHOWN = 100

WHAT = """\
One day of {lines:,} lines in {files:,} files of the archive of instance `{instance}` ({partitions}
partitions), whose index has {old:,} files of other days. Half a percent of the lines come up to two hours
late, and 2 % twice. {results} random results, in this process with warm connections: *first* finds the
first {shown} lines, *count* all of them; the count is compared with the result."""


@dataclass
class Seconds:
    """What the results of one task took."""

    task: str
    first: list[float] = field(default_factory=list)
    count: list[float] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    wrong: int = 0  # results with another number of lines

    def row(self) -> list[Cell]:
        times = (p95(self.first), float(np.median(self.count)), p95(self.count))
        return [self.task, max(self.lines), max(self.files), *times, self.wrong]


def run(quick: bool = False) -> Outcome:
    size = QUICK if quick else FULL
    with stack.running() as settings, archived_day(settings, size, tasks()) as (own, _):
        found = measure(own, QUICK_RESULTS if quick else RESULTS)
        instance = settings.instance
    what = WHAT.format(
        lines=size.lines, files=size.files * PARTITIONS, partitions=PARTITIONS, old=size.old_files,
        results=sum((QUICK_RESULTS if quick else RESULTS).values()), shown=SHOWN, instance=instance,
    )  # fmt: skip
    return outcome(found, what, quick)


def outcome(found: Sequence[Seconds], what: str, quick: bool) -> Outcome:
    first = p95([seconds for each in found for seconds in each.first])
    short = p95([seconds for each in found if each.task != DAYS for seconds in each.count])
    days = p95([seconds for each in found if each.task == DAYS for seconds in each.count])
    bars = [
        Bar("first lines of a result, p95", first, LIMIT_SECONDS, "most", "s"),
        Bar("all lines of a result of a minute or an hour, p95", short, LIMIT_SECONDS, "most", "s"),
        Bar("all lines of a result of a day, p95", days, LIMIT_SECONDS, "most", "s"),
        Bar("results with another number of lines", sum(each.wrong for each in found), 0, "most", ""),
    ]
    columns = ["task", "lines", "files", "first p95, s", "count p50, s", "count p95, s", "wrong"]
    table = Table("Random results (lines and files: at most)", columns, [each.row() for each in found])
    return Outcome(NAME, what, bars, [table], quick=quick)


def measure(settings: Settings, results: Mapping[str, int]) -> list[Seconds]:
    """The times of so many random results of these tasks, of whatever the instance has."""
    layers, dice = StoredLayers(settings), random.Random(9)  # noqa: S311 - not a secret
    measured = []
    for name, number in results.items():
        (answer,) = read(layers, Query(tasks=(name,), metrics=("count",)))
        rows = answer.table().to_pylist()
        taken = Seconds(name)
        for row in dice.sample(rows, min(number, len(rows))):
            where = tuple(Where(dimension=each, values=(row[each],)) for each in answer.dimensions)
            query = LinesQuery(task=name, period=round(row["period"].timestamp() * 1000), where=where)
            began = time.perf_counter()
            for _ in find(settings, query, layers=layers).batches(SHOWN):
                pass
            taken.first.append(time.perf_counter() - began)
            began = time.perf_counter()
            whole = find(settings, query, layers=layers)
            lines = whole.count()
            taken.count.append(time.perf_counter() - began)
            taken.lines.append(lines)
            taken.files.append(whole.files)
            taken.wrong += lines != row["count"]
        stack.say(f"{NAME}: {taken.row()}")
        measured.append(taken)
    return measured


def tasks() -> list[TaskSpec]:
    """Tasks of a minute, an hour and a day."""
    dimensions = {"status": 8, "site": 10, "path": 6}

    def document(name: str, period: str, *by: str) -> dict[str, object]:
        cut = [{"name": each, "extract": {"delimiter": " ", "index": dimensions[each]}} for each in by]
        return {"name": name, "topic": "logs", "period": period, "metrics": ["count"], "dimensions": cut}

    return parse_documents(
        [
            document("minutes", "1m", "status"),
            document("hours", "1h", "path"),
            document(DAYS, "1d", "site"),
        ]
    )


def p95(seconds: Sequence[float]) -> float:
    return float(np.percentile(seconds, 95))
