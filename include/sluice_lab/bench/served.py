"""Results in the stores of a running instance, written as a publication and the speed layer write them.

Each task has a topic of its own that only the bench knows. It is paused, so that no layer looks for lines.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from sluice.engine.schema import partials_schema
from sluice.runtime.days import DAY_MS, begin_ms
from sluice.runtime.settings import Settings
from sluice.state import finals
from sluice.state.merging import merge_into_blocks
from sluice.state.series import START, dimension, series_schema
from sluice.state.state import AttemptState
from sluice.storage.hbase import FINALS, FINALS_FAMILY, STATE, STATE_FAMILY, HBase
from sluice.storage.postgres import engine
from sluice.storage.tables import schema
from sluice.storage.tables.commits import Commit, CommitLog
from sluice.storage.tables.days import Days
from sluice.storage.tables.epochs import PeriodKey, StatePeriod
from sluice.storage.tables.finals import FinalRange, Finals
from sluice.tasks import ActiveTask, TaskSpec
from sluice.tasks.period import parse_period
from sluice.tasks.store import TaskStore

FIRST_DAY = date(2015, 5, 17)
FIRST = begin_ms(FIRST_DAY)
METRICS = ("count", "sum", "avg")


def day_of(number: int) -> date:
    """The day with that number, from 0."""
    return FIRST_DAY + timedelta(days=number)


class Served:
    """A task with one dimension, `path`, and its results."""

    def __init__(self, settings: Settings, paths: Sequence[str], period: str) -> None:
        self.settings, self._database = settings, engine(settings)
        self._paths, self._step = sorted(paths), parse_period(period) * 1000
        self.name = f"bench_{secrets.token_hex(4)}"
        self._log, self._book = CommitLog(self._database, self.name), Finals(self._database, self.name)
        self._days, self._token, self._seq = Days(self._database, self.name), secrets.token_hex(8), 0
        self._periods: dict[PeriodKey, StatePeriod] = {}
        self._rows: set[bytes] = set()
        self._tasks = TaskStore(self._database)
        extract = {"delimiter": " ", "index": 0}
        spec = {
            "name": self.name,
            "topic": self.name,
            "period": period,
            "dimensions": [{"name": "path", "extract": extract}],
            "measure": {"delimiter": " ", "index": 1, "type": "number"},
            "metrics": METRICS,
        }
        self._tasks.apply([TaskSpec.model_validate(spec)], "bench")
        found = self._tasks.pause(self.name, "bench")
        self.task = ActiveTask(*found.key, found.spec)

    def starts(self, day: int) -> range:
        """The periods (ms) of a day."""
        return range(FIRST + day * DAY_MS, FIRST + (day + 1) * DAY_MS, self._step)

    def publish(self, days: Sequence[int]) -> None:
        """Make days final, each with all its series."""
        with HBase.of(self.settings) as hbase:
            for number in days:
                day, starts, run = day_of(number), self.starts(number), f"bench-{number}"
                self._days.set_computed(day, cut={}, run_id=run, tasks_seq=0, raw_lines=0, lines=0)
                prefix = f"{self.task.label}/{starts.start}"
                blocks = finals.write(hbase, self._book.reserve, prefix, [self.series(starts)])
                own = (self.task.task_id, self.task.version, starts.start, starts.stop, day, day, run)
                self._book.publish(day, {}, [FinalRange(*own, blocks)])

    def commit(self, starts: Sequence[int]) -> None:
        """Count all series of these periods once more, as a batch does."""
        self._seq += 1
        with HBase.of(self.settings) as hbase:
            readable = self._log.snapshot(()).readable
            state = AttemptState(hbase, readable, self._seq, self._token, self._log.newest)
            known = {key: self._periods[key] for key in map(self._key, starts) if key in self._periods}
            state.know(known)
            layouts = {key: period.layout for key, period in known.items()}
            changes = merge_into_blocks(self._partials(starts), layouts, state.load)
            state.write(changes.blocks, changes.deltas)
        for block, data in changes.blocks.items():
            since = known[block.period].since if block.period in known else self._seq
            self._rows.add(block.row.encode())
            self._periods[block.period] = StatePeriod(
                *block.period, block.layout, since, self._seq, len(data)
            )
        touched = [self._periods[self._key(start)] for start in starts]
        offsets = {"0": self._seq}
        now = datetime.now(UTC)
        self._log.append(Commit(self._seq, self._token, "id", now, {}, offsets, [], {}, touched))

    def forget(self) -> None:
        """Delete everything of the task."""
        blocks = [block.row.encode() for each in self._book.of_topic() for block in each.blocks]
        with HBase.of(self.settings) as hbase:
            hbase.delete(FINALS, ((row, [FINALS_FAMILY]) for row in blocks))
            hbase.delete(STATE, ((row, [STATE_FAMILY]) for row in self._rows))
        with self._database.begin() as connection:
            for table in schema.metadata.tables.values():
                if "topic" in table.c and table.name != "tasks":
                    connection.execute(sa.delete(table).where(table.c.topic == self.name))
        self._tasks.delete(self.name, "bench")

    def series(self, starts: Sequence[int]) -> pa.Table:
        """SERIES of all paths in these periods, in order."""
        columns = self._columns(starts)
        codes = np.tile(np.arange(len(self._paths), dtype=np.int32), len(starts))
        columns[dimension(0)] = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(self._paths))
        return _table(columns, series_schema(self.task))

    def _partials(self, starts: Sequence[int]) -> pa.Table:
        columns, size = self._columns(starts), len(starts) * len(self._paths)
        columns["task_id"] = pa.array(np.full(size, self.task.task_id, np.int32))
        columns["version"] = pa.array(np.full(size, self.task.version, np.int32))
        columns["key"] = pa.array(self._paths * len(starts))
        return _table(columns, partials_schema())

    def _columns(self, starts: Sequence[int]) -> dict[str, pa.Array]:
        """The periods and accumulators; what they are follows from the period and the path."""
        begins = np.repeat(np.asarray(starts, np.int64), len(self._paths))
        numbers = begins // self._step * 31 + np.tile(np.arange(len(self._paths)), len(starts)) * 17
        lines = 1 + numbers % 1_000
        return {
            START: pa.array(begins),
            "lines": pa.array(lines),
            "measured": pa.array(lines),
            "isum": pa.array(lines * (1 + numbers % 977)),
        }

    def _key(self, start: int) -> PeriodKey:
        return self.task.task_id, self.task.version, start


def _table(columns: dict[str, pa.Array], wanted: pa.Schema) -> pa.Table:
    size = len(columns[START])
    return pa.table([columns.get(f.name, pa.nulls(size, f.type)) for f in wanted], schema=wanted)
