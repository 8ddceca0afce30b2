"""Open periods as SERIES: the committed state, with what was backfilled.

They are kept in memory in *groups* of periods that follow each other. A group is known by the commits that
changed its periods last. So after a commit only the groups that it touched are read again.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import sqlalchemy as sa

from sluice.engine.merge import merge
from sluice.engine.set_aside import TasksFailed
from sluice.results.patience import PATIENCE_SECONDS
from sluice.runtime.lru_cache import LruCache
from sluice.state.backfilled import BackfillMissing, apart, read_blocks
from sluice.state.damage import DAMAGE, damaged, damaged_pointers
from sluice.state.finals import compact
from sluice.state.series import START, of_partials, one, series_schema
from sluice.state.state import StateRead, read_state
from sluice.storage.hbase import HBase
from sluice.storage.tables.backfills import BackfillPointer, Backfills
from sluice.storage.tables.commits import CommitLog
from sluice.storage.tables.epochs import PeriodKey, StatePeriod
from sluice.storage.tables.finals import Sides
from sluice.storage.tables.recounts import Recounts
from sluice.tasks.period import parse_period
from sluice.tasks.spec import ActiveTask

#: Commits are made about once a second, and a read takes a fraction of one.
ATTEMPTS = 10
#: Groups that are kept, unpacked.
GROUPS_BYTES = 64 << 20
#: A commit mostly changes the newest period or two. All of their group is read again.
GROUP_PERIODS = 64

Key = tuple[object, ...]


class OpenPart(NamedTuple):
    """SERIES in order and in one piece. Nothing else will ever have this name."""

    rows: pa.Table
    name: str


class Opened(NamedTuple):
    """Open periods as SERIES in order, as of one commit (0: no commit yet).

    `parts`: the same rows, if they are kept in parts; else it is empty. `recounted`: periods that turned out
    to be set aside, and are not among the rows.
    """

    rows: pa.Table
    commit: int
    parts: Sequence[OpenPart] = ()
    recounted: frozenset[int] = frozenset()


class _Anew(Exception):
    """Periods began anew since the sides were decided: what came before is being counted again."""

    def __init__(self, starts: set[int]) -> None:
        super().__init__(starts)
        self.starts = starts


class Moment(NamedTuple):
    """What there is of open periods as of one commit."""

    head: int
    state: Mapping[int, StatePeriod]
    filled: Mapping[int, tuple[BackfillPointer, ...]]


class OpenPeriods:
    """Reads open periods, and keeps those that were read last. May be shared between threads."""

    def __init__(self, engine: sa.Engine, hbase: HBase, most: int = GROUPS_BYTES) -> None:
        self._engine, self._hbase = engine, hbase
        self._kept: LruCache[Key, OpenPart] = LruCache(lambda part: part.rows.nbytes, most)
        self._numbers = count()
        self._reading = threading.Lock()

    def read(self, task: ActiveTask, sides: Sides, starts: Sequence[int]) -> Opened:
        """These periods, in order, all as of the commit of `sides` or of a later one.

        A period with a damaged block is set aside, and left out. Raises TasksFailed, and what DAMAGE names if
        the block is not missed any more.
        """
        log = CommitLog(self._engine, task.spec.topic, PATIENCE_SECONDS)
        gone = set[int]()
        while True:
            left = [start for start in starts if start not in gone]
            try:
                return self._read(task, log, sides, left)._replace(recounted=frozenset(gone))
            except _Anew as anew:
                gone |= anew.starts
            except DAMAGE:
                new = self._set_aside(task, log, left)
                if not new:
                    raise
                gone |= new

    def _set_aside(self, task: ActiveTask, log: CommitLog, starts: Sequence[int]) -> set[int]:
        """Set those of these periods aside that have a damaged block; returns them."""
        keys = _keys(task, starts)
        found = damaged(log, self._hbase, keys)
        pointers = Backfills(self._engine, PATIENCE_SECONDS).pointers(keys)
        found += damaged_pointers(self._hbase, pointers)
        recounts = Recounts(self._engine, task.spec.topic, PATIENCE_SECONDS)
        return {start for *_, start in recounts.set_aside(found)}

    def _read(self, task: ActiveTask, log: CommitLog, sides: Sides, starts: Sequence[int]) -> Opened:
        groups = _groups(task, starts)
        moment, own = Moment(sides.head, sides.state, sides.filled), dict[Key, OpenPart]()
        for _ in range(ATTEMPTS):
            keys = [_key(task, moment, group) for group in groups]
            if not self._cold(keys, own):
                parts = [own[key] for key in keys if own[key].rows.num_rows]
                return Opened(_whole([part.rows for part in parts], task), moment.head, parts)
            with self._reading:  # another thread may have read them meanwhile
                cold = set(self._cold(keys, own))
                wanted = [group for group, key in zip(groups, keys, strict=True) if key in cold]
                head = moment.head
                if wanted:
                    head = self._load(task, log, sides, wanted, filled=moment.filled, own=own)
            if head != moment.head or self._cold(keys, own):
                moment = self._now(task, log, starts)
        read = at_one_commit(log, self._hbase, _keys(task, starts))
        _check_since(read, sides, starts)
        return Opened(self._series(task, read, moment.filled, starts), read.snapshot.head)

    def _cold(self, keys: Sequence[Key], own: dict[Key, OpenPart]) -> list[Key]:
        """The groups that are not kept; the others are added to `own`."""
        for key in keys:
            if key not in own and (part := self._kept.get(key)) is not None:
                own[key] = part
        return [key for key in keys if key not in own]

    def _load(
        self,
        task: ActiveTask,
        log: CommitLog,
        sides: Sides,
        groups: Sequence[Sequence[int]],
        *,
        filled: Mapping[int, tuple[BackfillPointer, ...]],
        own: dict[Key, OpenPart],
    ) -> int:
        """Read groups as of the newest commit, add them to `own` and keep them; returns the commit.

        -1: the groups have to be read again, because a commit or a backfill changed them meanwhile.
        """
        starts = [start for group in groups for start in group]
        read = at_one_commit(log, self._hbase, _keys(task, starts))
        _check_since(read, sides, starts)
        head = read.snapshot.head
        if any(content.newest > head for content in read.blocks.values()):
            return -1
        try:
            series = self._series(task, read, filled, starts)
        except BackfillMissing:
            if self._now(task, log, starts).filled == {s: filled[s] for s in starts if s in filled}:
                raise
            return -1
        moment = Moment(head, {key[2]: each for key, each in read.snapshot.periods.items()}, filled)
        begins = one(series.column(START)).to_numpy()
        for group in groups:
            begin, end = np.searchsorted(begins, (group[0], group[-1] + 1))
            rows = compact(series.slice(begin, end - begin))
            part = OpenPart(rows, f"open/{next(self._numbers)}")
            own[key := _key(task, moment, group)] = part
            self._kept.put(key, part)
        return head

    def _series(
        self,
        task: ActiveTask,
        read: StateRead,
        filled: Mapping[int, tuple[BackfillPointer, ...]],
        starts: Sequence[int],
    ) -> pa.Table:
        rows, _, failures = read.rows()
        if failures:
            raise TasksFailed(failures)
        if pointers := [pointer for start in starts for pointer in filled.get(start, ())]:
            rows = merge(pa.concat_tables([rows, *apart(read_blocks(self._hbase, pointers))]))
        return of_partials(rows, task)

    def _now(self, task: ActiveTask, log: CommitLog, starts: Sequence[int]) -> Moment:
        """What there is of these periods by now."""
        keys = _keys(task, starts)
        filled: dict[int, list[BackfillPointer]] = {}
        for pointer in Backfills(self._engine, PATIENCE_SECONDS).pointers(keys):
            filled.setdefault(pointer.period_start, []).append(pointer)
        snapshot = log.snapshot(keys)
        state = {key[2]: each for key, each in snapshot.periods.items()}
        return Moment(snapshot.head, state, {start: tuple(own) for start, own in filled.items()})


def _check_since(read: StateRead, sides: Sides, starts: Sequence[int]) -> None:
    """Raises _Anew where a period's state is gone, or another one than when the sides were decided."""
    now = {key[2]: period.since for key, period in read.snapshot.periods.items()}
    anew = {start for start in starts if start in sides.state and now.get(start) != sides.state[start].since}
    if anew:
        raise _Anew(anew)


def at_one_commit(log: CommitLog, hbase: HBase, keys: Sequence[PeriodKey]) -> StateRead:
    """The periods' blocks, all as of the snapshot's commit.

    If commits keep overtaking it, some blocks are as of a commit that was made during the last attempt.
    """
    read = read_state(log, hbase, keys)
    for _ in range(ATTEMPTS - 1):
        if all(content.newest <= read.snapshot.head for content in read.blocks.values()):
            break
        read = read_state(log, hbase, keys)
    return read


def _groups(task: ActiveTask, starts: Sequence[int]) -> list[Sequence[int]]:
    """The periods in groups whose bounds do not depend on which of them are asked for."""
    span, groups, begin = GROUP_PERIODS * parse_period(task.spec.period) * 1000, [], 0
    while begin < len(starts):
        end = bisect_left(starts, (starts[begin] // span + 1) * span, begin)
        groups.append(starts[begin:end])
        begin = end
    return groups


def _key(task: ActiveTask, moment: Moment, group: Sequence[int]) -> Key:
    """What names a group for ever: no two contents of a period have the same `seq`."""
    state, filled = moment.state, moment.filled
    seqs = tuple([state[start].seq if start in state else 0 for start in group])
    blocks = [(b.row, b.column) for start in group for b in filled.get(start, ())] if filled else []
    return task.task_id, task.version, tuple(group), seqs, tuple(blocks)


def _keys(task: ActiveTask, starts: Sequence[int]) -> list[PeriodKey]:
    return [(task.task_id, task.version, start) for start in starts]


def _whole(tables: Sequence[pa.Table], task: ActiveTask) -> pa.Table:
    return pa.concat_tables([series_schema(task).empty_table(), *tables])
