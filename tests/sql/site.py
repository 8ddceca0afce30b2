"""The three first tasks with lines of four days, counted and published without Kafka and Spark."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from sluice.engine.count import count
from sluice.engine.merge import merge
from sluice.engine.plan import EnginePlan
from sluice.runtime.settings import ROOT, Limits, Settings
from sluice.state import finals
from sluice.state.merging import merge_into_blocks
from sluice.state.series import START, of_partials
from sluice.state.state import AttemptState
from sluice.storage import schema
from sluice.storage.commits import Commit, CommitLog
from sluice.storage.days import Days
from sluice.storage.epochs import StatePeriod
from sluice.storage.finals import FinalRange, Finals
from sluice.storage.hbase import HBase
from sluice.storage.postgres import engine
from sluice.tasks import parse_tasks
from sluice.tasks.spec import ActiveTask, TaskSpec
from sluice.tasks.store import TaskStore
from tests.engine.samples import line, records

FIRST_DAY = date(2015, 5, 17)
DAYS = [FIRST_DAY + timedelta(days=n) for n in range(4)]
DAY_MS = 86_400_000
NAMES = ("hits_by_status", "bytes_by_path", "hits_by_client")
PATHS = ("/", "/favicon.ico", "/presentations/a.pdf", "/presentations/b_1.pdf", "/img/x.png")
STATUSES = ("200", "200", "304", "404", "200", "500", "206")


def log(lines_a_day: int = 240) -> list[bytes]:
    """Lines of the four days; the same each time."""
    found = []
    for day_number, day in enumerate(DAYS):
        begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
        for n in range(lines_a_day + 10 * day_number):
            at = begin + timedelta(seconds=(n * 347) % 86_400)
            client = f"10.0.{day_number if n % 5 == 0 else 9}.{n % 11}"
            size = "-" if n % 17 == 0 else str(100 + n * 37 % 4_001)
            found.append(line(client, at, PATHS[n // 3 % len(PATHS)], STATUSES[n % len(STATUSES)], size))
    return found


class Site:
    """A topic of its own. Its tasks are those of include/tasks.yaml, with `mark` before their names."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings, self.database = settings, engine(settings)
        self.mark = f"s{secrets.token_hex(4)}"
        self.topic = f"{self.mark}_logs"
        self.store = TaskStore(self.database)
        self.log, self.book = CommitLog(self.database, self.topic), Finals(self.database, self.topic)
        self.days, self.token, self.seq = Days(self.database, self.topic), secrets.token_hex(8), 0
        self.lines, self.file = log(), folder / "access.log"
        self.file.write_bytes(b"".join(each + b"\n" for each in self.lines))
        specs = parse_tasks((ROOT / "include" / "tasks.yaml").read_text())
        self.apply([s.model_copy(update={"name": self.name(s.name), "topic": self.topic}) for s in specs])
        self.periods: dict[tuple[int, int, int], StatePeriod] = {}
        plan = EnginePlan.of(list(self.tasks.values()), Limits())
        self.partials = merge(count(records(self.lines), plan).partials)

    def name(self, task: str) -> str:
        return f"{self.mark}_{task}"

    def own(self, statement: str) -> str:
        """The statement about this site's tasks in place of those of the same names."""
        for name in NAMES:
            statement = statement.replace(f"v_{name}", f"v_{self.name(name)}")
            statement = statement.replace(f"'{name}'", f"'{self.name(name)}'")
        return statement

    def apply(self, specs: Sequence[TaskSpec]) -> None:
        self.store.apply(specs, "test")
        found = [self.store.get(self.name(name)) for name in NAMES]
        self.tasks = {each.name: self.store.version(each.task_id, each.version) for each in found}

    def commit(self, partials: pa.Table | None = None) -> None:
        """Count partial aggregates (by default all lines) as a batch does."""
        self.seq += 1
        with HBase.of(self.settings) as hbase:
            snapshot = self.log.snapshot(())
            state = AttemptState(hbase, snapshot.readable, self.seq, self.token, self.log.newest)
            state.know(self.periods)
            layouts = {key: period.layout for key, period in self.periods.items()}
            given = self.partials if partials is None else partials
            changes = merge_into_blocks(given, layouts, state.load)
            state.write(changes.blocks, changes.deltas)
        for block, data in changes.blocks.items():
            known = self.periods.get(block.period)
            since = known.since if known else self.seq
            self.periods[block.period] = StatePeriod(*block.period, block.layout, since, self.seq, len(data))
        own = [each for each in self.periods.values() if each.seq == self.seq]
        now = datetime.now(UTC)
        self.log.append(Commit(self.seq, self.token, "id", now, {}, {"0": self.seq}, [], {}, own, days=()))

    def publish(self, *days: date) -> None:
        """Publish what is counted of these days."""
        for day in days:
            first = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000
            run = f"run-{day}"
            self.days.set_computed(
                day, cut={"0": self.seq}, run_id=run, tasks_seq=self.seq, raw_lines=0, lines=0
            )
            ranges = [self._range(task, day, first, run) for task in self.tasks.values()]
            self.book.publish(day, {"0": self.seq}, ranges)

    def _range(self, task: ActiveTask, day: date, first: int, run: str) -> FinalRange:
        mine = pc.and_(pc.equal(self.partials["task_id"], task.task_id), self._in(first))
        rows = of_partials(self.partials.filter(mine), task)
        with HBase.of(self.settings) as hbase:
            blocks = finals.write(hbase, self.book.reserve, f"{task.label}/{first}", [rows])
        key = task.task_id, task.version
        return FinalRange(*key, first, first + DAY_MS, day, day, run, blocks)

    def _in(self, first: int) -> pa.Array:
        begins = self.partials[START]
        return pc.and_(pc.greater_equal(begins, first), pc.less(begins, first + DAY_MS))

    def awk(self, program: str) -> list[list[str]]:
        """The words that awk prints for the log, a list for each line, in order."""
        done = subprocess.run(["awk", program, self.file], capture_output=True, text=True, check=True)
        return sorted(each.split() for each in done.stdout.splitlines())

    def forget(self) -> None:
        with self.database.begin() as connection:
            for table in schema.metadata.tables.values():
                if "topic" in table.c and table.name != "tasks":
                    connection.execute(sa.delete(table).where(table.c.topic == self.topic))
        for name in self.tasks:
            self.store.delete(name, "test")
