"""Where a reader gets periods from: final blocks, or the committed state with what was backfilled.

One transaction decides the side of each period (`storage.finals.Sides`). A period that is published after
that still comes from the state, and a day that is published again still comes from the blocks that it had.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import NamedTuple, Protocol

import pyarrow as pa

from sluice.engine.merge import merge
from sluice.engine.set_aside import TasksFailed
from sluice.runtime.settings import Settings
from sluice.state.backfilled import BackfillMissing, read_blocks
from sluice.state.blocks import BlockId, unpack
from sluice.state.finals import FinalBlocks
from sluice.state.series import of_partials, series_schema
from sluice.state.state import Read, read_state
from sluice.storage.backfills import BackfillPointer, Backfills
from sluice.storage.commits import CommitLog
from sluice.storage.epochs import PeriodKey
from sluice.storage.finals import FinalBlock, Finals, Sides
from sluice.storage.hbase import HBase
from sluice.storage.postgres import engine
from sluice.tasks.spec import ActiveTask
from sluice.tasks.store import TaskStore, UnknownTask

#: A person is waiting, so this waits for HBase and PostgreSQL less long than the layers do.
PATIENCE_SECONDS = 10.0
#: Commits are made about once a second, and a read takes a fraction of one.
ATTEMPTS = 10


class UnknownVersion(LookupError):
    """The task has no version of that number."""


class Opened(NamedTuple):
    """Open periods as SERIES in order, as of one commit (0: no commit yet)."""

    rows: pa.Table
    commit: int


class Layers(Protocol):
    """What the reader needs of the stores."""

    def task(self, name: str, version: int | None) -> ActiveTask: ...

    def sides(self, task: ActiveTask, since: int, until: int) -> Sides: ...

    def newest(self, task: ActiveTask) -> int: ...

    def final(self, task: ActiveTask, blocks: Iterable[FinalBlock]) -> Iterator[pa.Table]: ...

    def open(self, task: ActiveTask, sides: Sides, starts: Sequence[int]) -> Opened: ...


class StoredLayers:
    """The layers of an instance, with one connection to HBase and a cache of final blocks."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._engine = engine(settings)
        self._hbase = HBase.of(settings, patience=PATIENCE_SECONDS)
        self._blocks = FinalBlocks(self._hbase)

    def task(self, name: str, version: int | None) -> ActiveTask:
        """The task of that name, at its current version or the one asked for.

        Raises UnknownTask, UnknownVersion.
        """
        return find(self._settings, name, version)

    def sides(self, task: ActiveTask, since: int, until: int) -> Sides:
        finals = Finals(self._engine, task.spec.topic, PATIENCE_SECONDS)
        return finals.sides((task.task_id, task.version), since, until)

    def newest(self, task: ActiveTask) -> int:
        """The newest commit of the task's topic; 0 before the first."""
        return CommitLog(self._engine, task.spec.topic, PATIENCE_SECONDS).newest()

    def final(self, task: ActiveTask, blocks: Iterable[FinalBlock]) -> Iterator[pa.Table]:
        for _, rows in self._blocks.read(blocks, series_schema(task)):
            yield rows

    def open(self, task: ActiveTask, sides: Sides, starts: Sequence[int]) -> Opened:
        keys = [sides.state[start].key for start in starts if start in sides.state]
        log = CommitLog(self._engine, task.spec.topic, PATIENCE_SECONDS)
        read = at_one_commit(log, self._hbase, keys)
        pointers = [pointer for start in starts for pointer in sides.filled.get(start, ())]
        rows, _, failures = read.rows()
        if failures:
            raise TasksFailed(failures)
        if pointers:
            rows = merge(pa.concat_tables([rows, *self._filled(pointers)]))
        return Opened(of_partials(rows, task), read.snapshot.head)

    def _filled(self, pointers: Sequence[BackfillPointer]) -> list[pa.Table]:
        """PARTIALS of the filled days, a table for each day."""
        book = Backfills(self._engine, PATIENCE_SECONDS)
        for attempt in range(ATTEMPTS):
            try:
                return by_day(read_blocks(self._hbase, pointers))
            except BackfillMissing:  # the day was filled again meanwhile
                if attempt == ATTEMPTS - 1:
                    raise
                pointers = book.pointers({pointer.period for pointer in pointers})
        raise AssertionError


def find(settings: Settings, name: str, version: int | None = None) -> ActiveTask:
    """The task of that name, at its current version or at the one asked for.

    Raises UnknownTask, UnknownVersion.
    """
    store = TaskStore(engine(settings))
    try:
        task = store.get(name)
    except UnknownTask:
        known = ", ".join(each.name for each in store.list()) or "none: `sluice tasks apply` adds some"
        raise UnknownTask(f"there is no task {name!r}; the tasks are {known}") from None
    if version is not None and not 1 <= version <= task.version:
        raise UnknownVersion(f"task {name!r} has no version {version}: its versions are 1 to {task.version}")
    return store.version(task.task_id, version or task.version)


def at_one_commit(log: CommitLog, hbase: HBase, keys: Sequence[PeriodKey]) -> Read:
    """The periods' blocks, all as of the snapshot's commit.

    If commits keep overtaking it, some blocks are as of a commit that was made during the last attempt.
    """
    read = read_state(log, hbase, keys)
    for _ in range(ATTEMPTS - 1):
        if all(content.newest <= read.snapshot.head for content in read.blocks.values()):
            break
        read = read_state(log, hbase, keys)
    return read


def by_day(blocks: Mapping[BackfillPointer, bytes]) -> list[pa.Table]:
    """PARTIALS of each day: a period of several days has a block of the same name in each."""
    days: dict[date, dict[BlockId, bytes]] = {}
    for pointer, data in blocks.items():
        block = BlockId.of(pointer.period, pointer.layout, pointer.bucket)
        days.setdefault(pointer.day, {})[block] = data
    return [unpack(own) for own in days.values()]
