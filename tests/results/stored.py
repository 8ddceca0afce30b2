"""The layers in memory: a task's lines are counted, and each period is put on one side."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.count import count
from sluice.engine.merge import merge
from sluice.results.answers import Answers
from sluice.results.opened import Opened, OpenPart
from sluice.results.values import StateColumns
from sluice.state.finals import compact, cut, pack, unpack
from sluice.state.series import START, of_partials, series_schema
from sluice.storage.tables.epochs import StatePeriod
from sluice.storage.tables.finals import FinalBlock, FinalRange, Sides
from sluice.tasks.spec import ActiveTask, TaskSpec
from tests.engine.samples import plan, records

DAY = 86_400_000
COMMIT = 7


def series_of(task: ActiveTask, lines: Sequence[bytes]) -> pa.Table:
    """SERIES of what the task counts of the lines, which is counted once for tests that have the same."""
    return _counted(task.spec.model_dump_json(), tuple(lines))


@functools.lru_cache(maxsize=8)
def _counted(spec: str, lines: tuple[bytes, ...]) -> pa.Table:
    task = ActiveTask(1, 1, TaskSpec.model_validate_json(spec))
    if not lines:
        return series_schema(task).empty_table()
    return of_partials(merge(count(records(lines), plan(task.spec)).partials), task)


@dataclass
class Stored:
    """Layers of one task, whose days in `final` are published."""

    of: ActiveTask
    rows: pa.Table
    final_days: frozenset[int] = frozenset()  # numbers of days since 1970
    superseded: frozenset[int] = frozenset()  # those of them
    late: frozenset[int] = frozenset()  # starts of periods that were not there when their day was published
    recounted: frozenset[int] = frozenset()  # starts of periods that are being counted again
    lost: frozenset[int] = frozenset()  # those for which this turns out only when they are read
    block_bytes: int = 300
    group: int = 5 * 3_600_000  # ms; open periods come in such parts
    blocks: dict[str, bytes] = field(default_factory=dict)
    packed: dict[int, tuple[pa.Table, frozenset[int], FinalRange]] = field(default_factory=dict)  # by day
    read_blocks: int = 0
    head: int = COMMIT
    values: StateColumns = field(default_factory=StateColumns)
    answers: Answers = field(default_factory=Answers)

    def task(self, name: str, version: int | None) -> ActiveTask:
        return self.of

    def sides(self, task: ActiveTask, since: int, until: int) -> Sides:
        starts = [s for s in pc.unique(self.rows.column(START)).to_pylist() if since <= s < until]
        days = (day for day in sorted(self.final_days) if day * DAY < until and (day + 1) * DAY > since)
        ranges = [self._range(day) for day in days]
        is_open = [
            s
            for s in sorted(starts)
            if (s // DAY not in self.final_days or s // DAY in self.superseded or s in self.late)
            and s not in self.recounted
        ]
        superseded = frozenset(day * DAY for day in self.superseded)
        state = {s: StatePeriod(1, 1, s, 1, 1, 1, 100) for s in is_open}
        again = frozenset(s for s in self.recounted if since <= s < until)
        return Sides(tuple(ranges), superseded, tuple(is_open), state, {}, self.head, recounted=again)

    def final(self, task: ActiveTask, blocks: Iterable[FinalBlock]) -> Iterator[pa.Table]:
        for block in blocks:
            self.read_blocks += 1
            yield unpack(self.blocks[block.row], series_schema(task))

    def open(self, task: ActiveTask, sides: Sides, starts: Sequence[int]) -> Opened:
        gone = self.lost.intersection(starts)
        mine = pc.is_in(self.rows.column(START), pa.array([s for s in starts if s not in gone], pa.int64()))
        rows = self.rows.filter(mine).combine_chunks()
        groups = np.asarray(rows.column(START), np.int64) // self.group
        ends = [*np.flatnonzero(np.diff(groups)) + 1, rows.num_rows]
        parts = [compact(rows.slice(a, b - a)) for a, b in pairwise([0, *ends]) if a < b]
        return Opened(rows, self.head, [OpenPart(part, _name(pack(part))) for part in parts], gone)

    def _range(self, day: int) -> FinalRange:
        rows, late, found = self.packed.get(day, (None, None, None))
        if found is None or rows is not self.rows or late != self.late:
            found = self._pack(day)
            self.packed[day] = self.rows, self.late, found
        return found

    def _pack(self, day: int) -> FinalRange:
        first, begins = day * DAY, self.rows.column(START)
        inside = pc.and_(pc.greater_equal(begins, first), pc.less(begins, first + DAY))
        known = pc.invert(pc.is_in(begins, pa.array(sorted(self.late), pa.int64())))
        blocks = []
        for number, part in enumerate(cut(self.rows.filter(pc.and_(inside, known)), self.block_bytes)):
            data, ends = pack(part), pc.min_max(part.column(START))
            row = f"{day}/{number}/{_name(data)}"
            self.blocks[row] = data
            own = FinalBlock(row, ends["min"].as_py(), ends["max"].as_py(), part.num_rows, 100)
            blocks.append(own)
        when = date.fromordinal(date(1970, 1, 1).toordinal() + day)
        return FinalRange(1, 1, first, first + DAY, when, when, f"run-{day}", tuple(blocks))


@dataclass
class Forgetful:
    """The same layers, which keep nothing and give open periods whole."""

    of: Stored

    def task(self, name: str, version: int | None) -> ActiveTask:
        return self.of.task(name, version)

    def sides(self, task: ActiveTask, since: int, until: int) -> Sides:
        return self.of.sides(task, since, until)

    def final(self, task: ActiveTask, blocks: Iterable[FinalBlock]) -> Iterator[pa.Table]:
        return self.of.final(task, blocks)

    def open(self, task: ActiveTask, sides: Sides, starts: Sequence[int]) -> Opened:
        return self.of.open(task, sides, starts)._replace(parts=())


def _name(data: bytes) -> str:
    """A name that nothing else has: what has a name never changes."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()


__all__ = ["COMMIT", "DAY", "Forgetful", "Stored", "series_of"]
