"""A topic whose lines are counted and published through the real stores, without Kafka and Spark."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from sluice.engine.count import count
from sluice.engine.merge import merge
from sluice.engine.plan import EnginePlan
from sluice.engine.schema import partials_schema
from sluice.results.periods import Periods
from sluice.runtime.sections import Limits
from sluice.runtime.settings import Settings
from sluice.state import finals
from sluice.state.blocks import BlockId
from sluice.state.merging import merge_into_blocks
from sluice.state.series import START, of_partials
from sluice.state.state import AttemptState
from sluice.storage.hbase import HBase
from sluice.storage.postgres import engine
from sluice.storage.tables import schema
from sluice.storage.tables.commits import Commit, CommitLog, DayLines
from sluice.storage.tables.days import Days
from sluice.storage.tables.epochs import PeriodKey, StatePeriod
from sluice.storage.tables.finals import FinalRange, Finals
from sluice.tasks.spec import ActiveTask, TaskSpec
from sluice.tasks.store import TaskStore
from tests.engine.samples import records, spec

CLIENT = {"name": "client", "extract": {"delimiter": " ", "index": 0}}


class Counting:
    """A topic and its tasks; without any given, one that counts clients by the hour.

    `partials`: what a publication makes final of a day.
    """

    def __init__(self, settings: Settings, specs: Sequence[TaskSpec] = ()) -> None:
        self.topic = f"reader_{secrets.token_hex(4)}"
        self.settings, self.database = settings, engine(settings)
        self.log, self.book = CommitLog(self.database, self.topic), Finals(self.database, self.topic)
        self.days, self.token, self.seq = Days(self.database, self.topic), secrets.token_hex(8), 0
        self.tasks = TaskStore(self.database)
        given = specs or [spec(name="hours", period="1h", dimensions=[CLIENT])]
        own = [s.model_copy(update={"name": f"{self.topic}_{s.name}", "topic": self.topic}) for s in given]
        self.tasks.apply(own, "test")
        found = [self.tasks.get(each.name) for each in own]
        self.active = [ActiveTask(*task.key, task.spec) for task in found]
        self.task = self.active[0]
        self.name = self.task.spec.name
        self.periods: dict[PeriodKey, StatePeriod] = {}
        self.partials = partials_schema().empty_table()

    def counted(self, lines: Sequence[bytes]) -> pa.Table:
        """The partial aggregates of lines, for all tasks."""
        return merge(count(records(lines), EnginePlan.of(self.active, Limits())).partials)

    def commit(self, partials: pa.Table, days: Sequence[DayLines] = ()) -> None:
        """Count partial aggregates as a batch does."""
        self.seq += 1
        with HBase.of(self.settings) as hbase:
            snapshot = self.log.snapshot(())
            state = AttemptState(hbase, snapshot.readable, self.seq, self.token, self.log.newest)
            state.know(self.periods)
            layouts = {key: period.layout for key, period in self.periods.items()}
            changes = merge_into_blocks(partials, layouts, state.load)
            state.write(changes.blocks, changes.deltas)
        for block, data in changes.blocks.items():
            self._note(block, len(data))
        own = [p for p in self.periods.values() if p.seq == self.seq]
        now = datetime.now(UTC)
        offsets = {"0": self.seq}
        commit = Commit(self.seq, self.token, "id", now, {}, offsets, [], {}, own, days=days)
        self.log.append(commit)

    def _note(self, block: BlockId, size: int) -> None:
        key = block.period
        since = self.periods[key].since if key in self.periods else self.seq
        self.periods[key] = StatePeriod(*key, block.layout, since, self.seq, size)

    def publish(self, day: date) -> tuple[FinalRange, ...]:
        """Publish what `partials` has of a day: of each task the periods that lie inside it."""
        run = f"run-{day}"
        cut = {"0": self.seq}
        self.days.set_computed(day, cut=cut, run_id=run, tasks_seq=self.seq, raw_lines=0, lines=0)
        made = []
        with HBase.of(self.settings) as hbase:
            for task in self.active:
                inside = Periods.of(day, task.spec.span).inside
                if not inside:
                    continue
                rows = of_partials(self.of_task(task), task)
                begins = rows.column(START)
                here = pc.and_(pc.greater_equal(begins, inside.start), pc.less(begins, inside.stop))
                prefix = f"{task.label}/{inside.start}"
                blocks = finals.write(hbase, self.book.reserve, prefix, [rows.filter(here)])
                own = (task.task_id, task.version, inside.start, inside.stop, day, day, run)
                made.append(FinalRange(*own, blocks))
        self.book.publish(day, cut, made)
        return tuple(made)

    def of_task(self, task: ActiveTask) -> pa.Table:
        """What `partials` has of a task."""
        return self.partials.filter(pc.equal(self.partials.column("task_id"), task.task_id))

    def forget(self) -> None:
        with self.database.begin() as connection:
            for table in schema.metadata.tables.values():
                if "topic" in table.c and table.name != "tasks":
                    connection.execute(sa.delete(table).where(table.c.topic == self.topic))
        for task in self.active:
            self.tasks.delete(task.spec.name, "test")
