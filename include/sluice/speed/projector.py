"""Projects committed state to the online results, which can be made again from the state."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from functools import partial

import pyarrow as pa

from sluice.engine.results import results
from sluice.engine.set_aside import each_or_all
from sluice.speed.topic_tasks import TopicTasks
from sluice.state.backfilled import Backfilled
from sluice.state.blocks import BlockId, unpack
from sluice.state.cells import online_cells
from sluice.state.portions import read_portions
from sluice.state.state import State
from sluice.storage.commits import Commit, CommitLog
from sluice.storage.hbase import RESULTS, HBase

log = logging.getLogger(__name__)


class Projector:
    """Writes the results of one topic's series, including what backfills counted of them.

    Results carry the time of their commit as HBase's timestamp. So the cells that a fenced-out writer still
    writes lie below those of its successor.
    """

    def __init__(
        self, commits: CommitLog, state: State, backfilled: Backfilled, hbase: HBase, tasks: TopicTasks
    ) -> None:
        self._commits = commits
        self._state = state
        self._backfilled = backfilled
        self._hbase = hbase
        self._tasks = tasks

    def catch_up(self, seq: int, committed_at: datetime) -> None:
        """Project the commits up to `seq`, the newest, that are not projected yet."""
        projected = self._commits.projected()
        if projected >= seq:
            return
        written = self._rows(self._commits.rows_since(projected), committed_at)
        self._commits.set_projected(seq)
        self._state.prune()
        log.info("topic %s: %d results of commits %d to %d", self._commits.topic, written, projected + 1, seq)

    def project(self, commit: Commit, touched: pa.Table | None = None) -> int:
        """Write the results of a commit, and return how many.

        They are those of the series that it touched (PARTIALS), and all of each version that it opened again.
        """
        written = 0 if touched is None else self._series(touched, commit.committed_at)
        if commit.opened:
            written += self._rows(self._commits.rows_reopened(commit.seq - 1), commit.committed_at)
        self._commits.set_projected(commit.seq)
        return written

    def _rows(self, rows: Sequence[str], committed_at: datetime) -> int:
        """Write the results of all series in these rows of the state, and return how many."""
        written = 0
        for some in read_portions(self._commits.pointers_at(rows)):
            self._state.layouts({pointer.period for pointer in some})
            blocks = self._state.load(BlockId.parse(each.row) for each in some)
            written += self._series(unpack(blocks), committed_at)
            self._state.evict()
        return written

    def _series(self, touched: pa.Table, committed_at: datetime) -> int:
        """Write the results of these series, and return how many.

        Tasks whose results cannot be made are set aside.
        """
        touched, failures = self._backfilled.added(touched)
        self._tasks.set_aside(failures)
        versions = zip(*(touched.column(n).to_pylist() for n in ("task_id", "version")), strict=True)
        found, failures = each_or_all(partial(results, tasks=self._tasks.versions(versions)), touched)
        self._tasks.set_aside(failures)
        if not found:
            return 0
        stamp = round(committed_at.timestamp() * 1000)
        return self._hbase.put(RESULTS, online_cells(pa.concat_tables(found)), timestamp=stamp)
