"""Readers run while days are counted, published, marked by late lines and published again."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from sluice.engine.results import results
from sluice.engine.rowkey import RowKey
from sluice.results.layers import StoredLayers
from sluice.results.query import Query
from sluice.results.reader import read
from sluice.runtime.days import DAY_MS, begin_ms
from sluice.runtime.settings import ROOT, Settings
from sluice.state.cells import ERROR_OF, online_cells
from sluice.storage.hbase import FINAL, ONLINE, RESULTS, HBase
from sluice.storage.tables.commits import DayLines
from sluice.tasks import parse_tasks
from sluice.tasks.lists import parse_lists
from sluice.tasks.spec import ActiveTask
from sluice.traffic import generate
from sluice_lab.waiting import until
from tests.engine.samples import BYTES, by_hand, line, spec
from tests.results.by_series import stored_results
from tests.results.counting import CLIENT, Counting

pytestmark = pytest.mark.stack

FIRST_DAY = date(2015, 5, 17)
PATH = {"name": "path", "extract": {"delimiter": " ", "index": 6}}
TASKS = (
    spec(name="hours", period="1h", dimensions=[CLIENT]),
    spec(name="paths", period="1h", dimensions=[PATH], measure=BYTES, metrics=["count", "sum"]),
    spec(name="days", period="1d", dimensions=[], measure=BYTES, metrics=["count", "max"]),
)
#: By period (ms) and dimension values: the values of metrics.
Rows = dict[tuple[int, tuple[str, ...]], dict[str, float]]


def of_day(day: int) -> list[bytes]:
    """The day's lines: clients and paths in every second hour."""
    begin = datetime(2015, 5, 17, tzinfo=UTC) + timedelta(days=day)
    return [
        line(client=f"c{n}", at=begin + timedelta(hours=hour), path=f"/{n % 2}", size=str(n + hour))
        for hour in range(0, 24, 2)
        for n in range(3)
    ]


def late_for(day: int) -> list[bytes]:
    """A series that is known, one that is new, and a period that is new."""
    begin = datetime(2015, 5, 17, tzinfo=UTC) + timedelta(days=day)
    return [
        line(client="c0", at=begin, path="/0", size="900"),
        line(client="new", at=begin + timedelta(hours=2), path="/new"),
        line(client="c1", at=begin + timedelta(hours=5)),
    ]


def exact(lines: Sequence[bytes], task: ActiveTask) -> Rows:
    """The task's metrics, counted in plain Python."""
    found = by_hand(lines, task.spec)
    return {series: {name: own[name] for name in task.spec.metrics} for series, own in found.items()}


def shown(task: ActiveTask, committed: Sequence[bytes], published: Sequence[bytes] | None) -> Rows:
    """What is read of a day: what was published, and periods of which nothing was known then."""
    newest = exact(committed, task)
    if published is None:
        return newest
    final = exact(published, task)
    known = {start for start, _ in final}
    return final | {series: values for series, values in newest.items() if series[0] not in known}


@dataclass
class Truth:
    """What a reader may find, by task and day, and from when until when."""

    found: dict[tuple[str, int], list[tuple[float, Rows]]] = field(default_factory=dict)
    ends: dict[tuple[str, int], list[float]] = field(default_factory=dict)

    def will_be(self, name: str, day: int, rows: Rows) -> None:
        """From now on a reader may find these."""
        self.found.setdefault((name, day), [(0.0, {})]).append((time.monotonic(), rows))

    def is_so(self) -> None:
        """From now on a reader finds what was announced last, and nothing that was before."""
        for key, states in self.found.items():
            ends = self.ends.setdefault(key, [])
            ends += [time.monotonic()] * (len(states) - 1 - len(ends))

    def allows(self, name: str, day: int, rows: Rows, during: tuple[float, float]) -> bool:
        states, ends = list(self.found.get((name, day), [(0.0, {})])), list(self.ends.get((name, day), ()))
        ends += [time.monotonic()] * (len(states) - len(ends))
        return any(
            wanted == rows
            for (begin, wanted), end in zip(states, ends, strict=True)
            if begin <= during[1] and end >= during[0]
        )


class Watched(Counting):
    """The topic, and readers of all its tasks that check every answer."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, TASKS)
        self.truth, self.problems, self.states = Truth(), list[object](), set[str]()
        self.answers = [0, 0, 0]
        self.committed: dict[int, list[bytes]] = {}
        self.published: dict[int, list[bytes]] = {}

    def step(self, day: int, do: Callable[[], object]) -> None:
        """Do something that changes what is read of a day, and let each reader read once more."""
        for task in self.active:
            rows = shown(task, self.committed.get(day, []), self.published.get(day))
            self.truth.will_be(task.spec.name, day, rows)
        do()
        self.truth.is_so()
        before = self.answers[:2]

        def answered() -> bool:
            return all(now >= old + 2 for now, old in zip(self.answers[:2], before, strict=True))

        until(answered, what="the readers answer", poll=0.01)

    def check(self, task: ActiveTask, rows: Sequence[dict[str, Any]], during: tuple[float, float]) -> None:
        """Each series once, and the exact count of each day."""
        names, metrics = [d.name for d in task.spec.dimensions], task.spec.metrics
        days: dict[int, Rows] = {day: {} for day in range(3)}
        for row in rows:
            start = begin(row["period"])
            own = days[(start - begin_ms(FIRST_DAY)) // DAY_MS]
            series = start, tuple(row[name] for name in names)
            if series in own:
                self.problems.append(("twice", series))
            own[series] = {name: row[name] for name in metrics}
        for day, own in days.items():
            if not self.truth.allows(task.spec.name, day, own, during):
                self.problems.append((task.spec.name, day, own))

    def reader(self, number: int, stop: threading.Event) -> None:
        layers = StoredLayers(self.settings)
        while not stop.is_set():
            for task in self.active:
                began = time.monotonic()
                (answer,) = read(layers, Query(tasks=(task.spec.name,)))
                rows = answer.table().to_pylist()
                self.check(task, rows, (began, time.monotonic()))
                self._check_states(rows, answer.periods.to_pylist())
            self.answers[number] += 1

    def _check_states(self, rows: Sequence[dict[str, Any]], periods: Sequence[dict[str, Any]]) -> None:
        """Each period is of one layer."""
        found = {(begin(row["period"]), row["state"]) for row in rows}
        self.states.update(state for _, state in found)
        if found != {(each["period_start"], each["state"]) for each in periods} or len(found) != len(periods):
            self.problems.append(found)

    def command(self, stop: threading.Event) -> None:
        """`sluice results`, again and again, each time in a process of its own."""
        while not stop.is_set():
            task = self.active[self.answers[2] % len(self.active)]
            began = time.monotonic()
            arguments = ["--instance", self.settings.instance, "results", task.spec.name, "--format", "json"]
            run = subprocess.run(
                [sys.executable, "-m", "sluice.cli.main", *arguments], capture_output=True, check=False
            )
            if run.returncode:
                self.problems.append(run.stderr)
            else:
                self.check(task, json.loads(run.stdout), (began, time.monotonic()))
            self.answers[2] += 1


def begin(period: datetime | str) -> int:
    when = datetime.fromisoformat(period) if isinstance(period, str) else period
    return round(when.timestamp() * 1000)


@pytest.fixture
def watched(stack: Settings) -> Iterator[Watched]:
    made = Watched(stack)
    yield made
    made.forget()


def test_every_answer_is_an_exact_count_whatever_is_published_meanwhile(watched: Watched) -> None:
    """Three tasks and three days, each of which is counted, published, gets late lines and is replaced."""
    stop = threading.Event()
    threads = [threading.Thread(target=watched.reader, args=(n, stop)) for n in range(2)]
    threads.append(threading.Thread(target=watched.command, args=(stop,)))
    for thread in threads:
        thread.start()
    try:
        for day in range(3):
            _live(watched, day)
            until(lambda day=day: watched.answers[2] > day, what="`sluice results` answers")
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert watched.problems[:3] == []
    assert watched.states == {"open", "final", "superseded"}
    assert min(watched.answers[:2]) >= 20
    for task in watched.active:  # in the end everything is final, with the late lines
        (answer,) = read(StoredLayers(watched.settings), Query(tasks=(task.spec.name,)))
        watched.check(task, answer.table().to_pylist(), (time.monotonic(), time.monotonic()))
        assert set(answer.periods.column("state").to_pylist()) == {"final"}
    assert watched.problems[:3] == []


def _live(watched: Watched, day: int) -> None:
    """The life of a day."""
    when, texts, late = FIRST_DAY + timedelta(days=day), of_day(day), late_for(day)

    def count(lines: list[bytes]) -> Callable[[], None]:
        watched.committed[day] = [*watched.committed.get(day, []), *lines]
        seen = DayLines(when, 0, len(lines), watched.seq)
        return lambda: watched.commit(watched.counted(lines), [seen])

    def publish() -> Callable[[], object]:
        watched.published[day] = watched.committed[day]
        watched.partials = watched.counted(watched.committed[day])
        return lambda: watched.publish(when)

    watched.step(day, count(texts[: len(texts) // 2]))
    watched.step(day, count(texts[len(texts) // 2 :]))
    watched.step(day, publish())
    watched.step(day, count(late))
    watched.step(day, publish())
    watched.step(day, publish())


# All tasks of the demo


DEMO_DAY, DEMO_DAYS, DEMO_LINES = date(2026, 3, 28), 3, 3_000  # Berlin changes its clocks on the second day


class Demo(Counting):
    """The demo's tasks over lines as the demo makes them, with the cells that the layers write of them."""

    def __init__(self, settings: Settings) -> None:
        examples = ROOT / "include" / "examples"
        lists = parse_lists((examples / "lists.yaml").read_text())
        specs = parse_tasks((examples / "tasks.yaml").read_text())
        super().__init__(settings, [each.with_sets(lists) for each in specs])
        self.cells: list[bytes] = []

    def write(self, days: Sequence[date]) -> None:
        """Write each result as online, and those of these days' periods as final, too."""
        found = results(self.partials, {(t.task_id, t.version): t for t in self.active})
        cells = online_cells(found)
        final = {
            (task.task_id, start)
            for task in self.active
            for start in set(self.of_task(task).column("period_start").to_pylist())
            if any(begin_ms(d) <= start and task.spec.span.end(start) <= begin_ms(d) + DAY_MS for d in days)
        }
        self.cells = cells.column("row").to_pylist()
        names = {ONLINE.decode(): FINAL, ERROR_OF[ONLINE].decode(): ERROR_OF[FINAL]}
        rows = []
        for row in cells.to_pylist():
            key, own = row["row"], {n.encode(): row[n].encode() for n in names if row[n] is not None}
            decoded = RowKey.decode(key)
            if (decoded.task_id, decoded.period_start) in final:
                own |= {names[name.decode()]: text for name, text in own.items()}
            rows.append((key, own))
        with HBase.of(self.settings) as store:
            store.put(RESULTS, rows)

    def forget(self) -> None:
        with HBase.of(self.settings) as store:
            store.delete(RESULTS, ((row, [b"r"]) for row in self.cells))
        super().forget()


@pytest.fixture
def demo(stack: Settings) -> Iterator[Demo]:
    made = Demo(stack)
    yield made
    made.forget()


def test_sluice_results_prints_what_the_layers_wrote_for_all_tasks_and_metrics(
    demo: Demo, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    from sluice.cli.results import ResultFormat
    from sluice.cli.results import results as command

    blocks = generate.batches(DEMO_LINES, seed=4, days=DEMO_DAYS, start=DEMO_DAY)
    demo.partials = demo.counted(b"".join(map(bytes, blocks)).splitlines())
    demo.commit(demo.partials)
    days = [DEMO_DAY, DEMO_DAY + timedelta(days=1)]
    for day in days:
        demo.publish(day)
    demo.write(days)
    both, compared = 0, 0
    for task in demo.active:
        capfdbinary.readouterr()
        command(task.spec.name, style=ResultFormat.JSON)
        rows = json.loads(capfdbinary.readouterr().out)
        wanted = stored_results(demo.settings, task.spec.name, "published")
        assert _values(task, rows) == wanted.values != {}
        assert _errors(task, rows) == wanted.errors
        both += {row["state"] for row in rows} == {"final", "open"}
        compared += sum(map(len, wanted.values.values()))
    assert both >= len(demo.active) // 2
    assert compared > DEMO_LINES


def _series(task: ActiveTask, row: dict[str, Any]) -> tuple[int, tuple[str, ...]]:
    return begin(row["period"]), tuple(row[d.name] for d in task.spec.dimensions)


def _values(task: ActiveTask, rows: Sequence[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    return {
        _series(task, row): {name: row[name] for name in task.spec.metrics if row[name] is not None}
        for row in rows
    }


def _errors(task: ActiveTask, rows: Sequence[dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    found = {
        _series(task, row): {n: row[f"{n}_error"] for n in task.spec.metrics if row.get(f"{n}_error")}
        for row in rows
    }
    return {series: errors for series, errors in found.items() if errors}
