"""Deletes results in HBase of series that nothing counts any more, because all of their lines were erased.

A row is deleted if its series is not in the state of its period any more. The rows are read before the state:
so each of them was written from what the state has now, or from what is gone. A line that comes later makes
its row anew.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import date

import pyarrow as pa

from sluice.batch.retention import result_rows
from sluice.batch.task_versions import ranges_of
from sluice.engine.merge import merge
from sluice.engine.rowkey import prefix
from sluice.engine.set_aside import TasksFailed
from sluice.results.online_results import ends_near
from sluice.runtime.days import DAY_MS, begin_ms, days_of
from sluice.runtime.settings import Settings
from sluice.state.backfilled import apart, read_blocks
from sluice.state.portions import BYTES_A_GET, portions
from sluice.state.state import read_state
from sluice.storage.hbase import FINAL, FINAL_ERROR, NAMES_ONLY, RESULT_FAMILY, RESULTS, HBase
from sluice.storage.postgres import engine
from sluice.storage.tables.backfills import Backfills
from sluice.storage.tables.commits import CommitLog
from sluice.storage.tables.epochs import PeriodKey
from sluice.storage.tables.recounts import Recounts
from sluice.tasks.period import LONGEST
from sluice.tasks.spec import ActiveTask
from sluice.tasks.store import TaskStore


def delete_vanished(
    settings: Settings,
    hbase: HBase,
    topic: str,
    days: Collection[date],
    uncounted: Collection[PeriodKey] = (),
) -> int:
    """Delete such results of the periods that touch these days; returns how many rows.

    Periods that are being counted again are left out. uncounted: those that could not be: nothing counts any
    series of theirs. Raises what the state's readers raise.
    """
    if not days:
        return 0
    database = engine(settings)
    found = 0
    for version in sorted(ranges_of(database, topic)):
        task = TaskStore(database).version(*version)
        rows = _rows(hbase, task, days)
        waiting = Recounts(database, topic).of([(*version, start) for start in rows]) - set(uncounted)
        starts = [start for start in sorted(rows) if (*version, start) not in waiting]
        counted = [key for start in starts if (key := (*version, start)) not in uncounted]
        log = CommitLog(database, topic)
        head = log.head()
        stamp = round(head.committed_at.timestamp() * 1000) + 1 if head else 1
        there = set[bytes]()
        for series in _series(settings, hbase, topic, counted):
            there.update(result_rows(task, series))
        gone = sorted({row for start in starts for row in rows[start]} - there)
        # What later commits write has a later time than the newest one now.
        hbase.delete(RESULTS, ((row, [RESULT_FAMILY]) for row in gone), timestamp=stamp)
        hbase.delete(RESULTS, ((row, [FINAL, FINAL_ERROR]) for row in gone))
        found += len(gone)
    return found


def _rows(hbase: HBase, task: ActiveTask, days: Collection[date]) -> dict[int, list[bytes]]:
    """The rows of results of the version's periods that touch the days, by the periods' starts (ms)."""
    near = ends_near(range(begin_ms(min(days)) - LONGEST * 1000, begin_ms(max(days)) + DAY_MS))
    touched: dict[int, bool] = {}
    found: dict[int, list[bytes]] = {}
    for row, _ in hbase.scan(RESULTS, prefix=prefix(task.label), row_filter=f"{near} AND {NAMES_ONLY}"):
        stamp = row.rpartition(b"_")[2]
        if not stamp.removeprefix(b"-").isdigit():
            continue
        start = int(stamp)
        if start not in touched:
            touched[start] = not set(days_of(start, task.spec.span.end(start))).isdisjoint(days)
        if touched[start]:
            found.setdefault(start, []).append(row)
    return found


def _series(settings: Settings, hbase: HBase, topic: str, keys: Sequence[PeriodKey]) -> Iterator[pa.Table]:
    """The series (with KEYS) of these periods of one version, a few periods at a time."""
    log, book = CommitLog(engine(settings), topic), Backfills(engine(settings))
    sizes = {key: period.bytes for key, period in log.periods(keys).items()}
    for pointer in book.pointers(keys):
        sizes[pointer.period] = sizes.get(pointer.period, 0) + pointer.bytes
    for some in portions(keys, lambda key: sizes.get(key, 0), BYTES_A_GET):
        rows, _, failures = read_state(log, hbase, some).rows()
        if failures:
            raise TasksFailed(failures)
        yield merge(pa.concat_tables([rows, *apart(read_blocks(hbase, book.pointers(some)))]))
