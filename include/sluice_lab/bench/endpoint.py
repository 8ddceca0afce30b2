"""The SQL tables over the results: what statements take at the endpoint, of a task with a million results."""

from __future__ import annotations

import secrets
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import numpy as np
import psutil
import pyarrow as pa
import sqlalchemy as sa

from sluice.runtime.settings import Settings
from sluice.stack.environment import DAEMON
from sluice.stack.memory import ProcessFamily, proportional_bytes
from sluice.state import finals
from sluice.state.series import START, dimension, series_schema
from sluice.storage.hbase import HBase
from sluice.storage.hive import Hive
from sluice.storage.postgres import engine
from sluice.storage.tables import schema
from sluice.storage.tables.days import Days
from sluice.storage.tables.finals import FinalRange, Finals
from sluice.tasks import ActiveTask, TaskSpec
from sluice.tasks.store import TaskStore
from sluice_lab.bench import stack
from sluice_lab.bench.cpu import Cpu
from sluice_lab.bench.outcome import Bar, Cell, Outcome, Table
from sluice_lab.waiting import until

NAME = "endpoint"
FIRST_DAY = date(2015, 5, 17)
SERIES, DAYS, ROUNDS = 100, 7, 9
DAY_MS, MINUTE_MS = 86_400_000, 60_000
#: Spark ends Python processes that were idle for a minute.
IDLE_SECONDS = 75.0
LIMIT_SECONDS = 2.0
WATCH_SECONDS = 120.0

WHAT = """\
One task with the metrics count and sum, {series} series a minute over {days} published days:
{results:,} results. One session of PyHive at instance `{instance}`, one statement at a time; median of
{rounds} rounds after two that do not count. CPU: the endpoint's processes, Java and Python, for one
statement."""

STATEMENTS = {
    "SELECT 1": "SELECT 1",
    "a day, summed": "SELECT sum(count) FROM {v} WHERE date(period) = DATE '2015-05-18'",
    "a day of one series": (
        "SELECT period, count FROM {v} WHERE date(period) = DATE '2015-05-18' AND path = 'p07'"
    ),
    "the same from results": (
        "SELECT sum(value) FROM results WHERE task = '{t}' AND version = 1 AND metric = 'count' "
        "AND date(period) = DATE '2015-05-18'"
    ),
    "all days, by path": "SELECT path, sum(count), sum(sum) FROM {v} GROUP BY path",
    "all days from results": "SELECT metric, sum(value) FROM results WHERE task = '{t}' GROUP BY metric",
}


def run(quick: bool = False) -> Outcome:
    days, rounds = (2, 3) if quick else (DAYS, ROUNDS)
    with stack.running() as settings, task(settings, days) as name, Hive(settings) as hive:
        wanted = {"results", f"v_{name}"}  # the watch creates them
        until(lambda: wanted <= {row[1] for row in hive.query("SHOW TABLES").rows}, WATCH_SECONDS)
        measured = TimedSession(settings, hive, name, rounds)
        rows = [measured.row(title, statement) for title, statement in STATEMENTS.items()]
        _, whole = measured.once(f"SELECT * FROM v_{name}")
        first = measured.first(0.0 if quick else IDLE_SECONDS)
        memory: list[list[Cell]] = [[kind, size / 1e6] for kind, size in measured.memory().items()]
        instance = settings.instance
    results = SERIES * DAY_MS // MINUTE_MS * days
    day = next(row for row in rows if row[0] == "a day, summed")
    columns = ["statement", "seconds", "slowest, s", "CPU, s"]
    others: list[list[Cell]] = [
        ["the first statement after the endpoint was idle, s", first],
        ["rows a second to PyHive, all columns", results / whole],
    ]
    shown = [
        Table("Statements", columns, rows),
        Table("Also", ["what", "figure"], others),
        Table("Memory (PSS)", ["processes", "MB"], memory),
    ]
    what = WHAT.format(series=SERIES, days=days, results=results, instance=instance, rounds=rounds)
    bar = Bar("a day of one task by SQL", day[1], LIMIT_SECONDS, "most", unit="s")
    return Outcome(NAME, what, [bar], shown, quick=quick)


@dataclass
class TimedSession:
    """One session, and what its statements take."""

    settings: Settings
    hive: Hive
    task: str
    rounds: int

    def once(self, statement: str) -> tuple[int, float]:
        """Rows and seconds of a statement."""
        begin = time.perf_counter()
        found = self.hive.query(statement.format(v=f"v_{self.task}", t=self.task))
        return len(found.rows), time.perf_counter() - begin

    def row(self, title: str, statement: str) -> tuple[str, float, float, float]:
        """The title; the median, the longest and the CPU seconds of a statement."""
        for _ in range(2):
            self.once(statement)
        cpu = Cpu(self.settings)
        before = cpu.seconds()["SQL endpoint"]
        seconds = [self.once(statement)[1] for _ in range(self.rounds)]
        took = (cpu.seconds()["SQL endpoint"] - before) / self.rounds
        stack.say(f"{NAME}: {title}: {statistics.median(seconds):.2f} s")
        return title, statistics.median(seconds), max(seconds), took

    def first(self, idle: float) -> float:
        """Seconds of a statement on one day after nothing was asked for so long."""
        time.sleep(idle)
        return self.once(STATEMENTS["a day, summed"])[1]

    def memory(self) -> dict[str, int]:
        """Bytes by kind of process."""
        found: dict[str, int] = {}
        for pid in ProcessFamily(self.settings).pids():
            try:
                process = psutil.Process(pid)
                if process.environ().get(DAEMON, "").split(":")[-1] != "sql":
                    continue
                words = process.cmdline()
            except psutil.Error:
                continue
            kind = "Java" if words[0].endswith("java") else words[-1]
            found[kind] = found.get(kind, 0) + proportional_bytes(pid)
        return found


@contextmanager
def task(settings: Settings, days: int) -> Iterator[str]:
    """A task whose days are published, until the end; gives its name."""
    database, name = engine(settings), f"bench_{secrets.token_hex(4)}"
    store, book = TaskStore(database), Finals(database, name)
    extract = {"delimiter": " ", "index": 0}
    spec = {
        "name": name, "topic": name, "period": "1m", "metrics": ["count", "sum"],
        "dimensions": [{"name": "path", "extract": extract}], "measure": {"delimiter": " ", "index": 1},
    }  # fmt: skip
    store.apply([TaskSpec.model_validate(spec)], "bench")
    found = store.pause(name, "bench")
    made = ActiveTask(*found.key, found.spec)
    try:
        with HBase.of(settings) as hbase:
            for number in range(days):
                day = FIRST_DAY + timedelta(days=number)
                first = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000
                Days(database, name).set_computed(
                    day, cut={}, run_id="bench", tasks_seq=0, raw_lines=0, lines=0
                )
                rows = [series(made, range(first, first + DAY_MS, MINUTE_MS))]
                blocks = finals.write(hbase, book.reserve, f"{made.label}/{first}", rows)
                ends = first, first + DAY_MS
                book.publish(day, {}, [FinalRange(*found.key, *ends, day, day, "bench", blocks)])
        yield name
    finally:
        book.forget(book.of_topic())
        with database.begin() as connection:
            for table in schema.metadata.tables.values():
                if "topic" in table.c and table.name not in ("tasks", "unused_finals"):
                    connection.execute(sa.delete(table).where(table.c.topic == name))
        store.delete(name, "bench")


def series(of: ActiveTask, starts: Sequence[int]) -> pa.Table:
    """SERIES of all paths in these periods."""
    size = SERIES * len(starts)
    codes = np.tile(np.arange(SERIES, dtype=np.int32), len(starts))
    lines = pa.array(1 + np.arange(size) % 1_000)
    columns: dict[str, pa.Array] = {
        START: pa.array(np.repeat(np.asarray(starts, np.int64), SERIES)),
        dimension(0): pa.DictionaryArray.from_arrays(
            pa.array(codes), pa.array([f"p{n:02d}" for n in range(SERIES)])
        ),
        "lines": lines,
        "measured": lines,
        "isum": lines,
    }
    wanted = series_schema(of)
    return pa.table([columns.get(f.name, pa.nulls(size, f.type)) for f in wanted], schema=wanted)
