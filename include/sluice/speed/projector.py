"""Projects committed state to the online results, which can be made again from the state."""

from __future__ import annotations

import logging
from datetime import datetime
from functools import partial

import numpy as np
import pyarrow as pa

from sluice.engine.results import results
from sluice.engine.set_aside import each_or_all
from sluice.runtime.crash_points import crash_point
from sluice.speed.topic_tasks import TopicTasks
from sluice.state.backfilled import Backfilled
from sluice.state.blocks import unpack_touched
from sluice.state.cells import online_cells
from sluice.state.state import read_in_portions
from sluice.storage.commits import CommitLog
from sluice.storage.hbase import RESULTS, HBase

log = logging.getLogger(__name__)


class Projector:
    """Writes the results of one topic's series, including what backfills counted of them.

    Results carry the time of a commit as HBase's timestamp, and are made of that commit's state or of a later
    one. So the cells that a second projector still writes lie below those of the one that is ahead.
    """

    def __init__(self, commits: CommitLog, backfilled: Backfilled, hbase: HBase, tasks: TopicTasks) -> None:
        self._commits = commits
        self._backfilled = backfilled
        self._hbase = hbase
        self._tasks = tasks

    def project(self) -> int:
        """Project the commits that are not projected yet; returns how many results were written.

        They are those of the series that these commits touched, and all of each version that they opened
        again.
        """
        projected = self._commits.projected()
        changed = self._commits.changed_since(projected)
        if changed.snapshot.head <= projected:
            return 0
        written = 0
        for read in read_in_portions(self._commits, self._hbase, changed.snapshot):
            series, seqs = unpack_touched(read.data, read.seq)
            wanted = seqs > projected
            ids, versions = (np.asarray(series[name]) for name in ("task_id", "version"))
            for task_id, version in changed.reopened:
                wanted |= (ids == task_id) & (versions == version)
            written += self._series(series.filter(pa.array(wanted)), read.snapshot.committed_at)
        crash_point("projected")
        self._commits.set_projected(changed.snapshot.head)
        return written

    def _series(self, touched: pa.Table, committed_at: datetime) -> int:
        """Write the results of these series, and return how many.

        Tasks whose results cannot be made are set aside.
        """
        if not touched.num_rows:
            return 0
        touched, failures = self._backfilled.added(touched)
        self._tasks.set_aside(failures)
        versions = zip(*(touched.column(n).to_pylist() for n in ("task_id", "version")), strict=True)
        found, failures = each_or_all(partial(results, tasks=self._tasks.versions(versions)), touched)
        self._tasks.set_aside(failures)
        if not found:
            return 0
        stamp = round(committed_at.timestamp() * 1000)
        return self._hbase.put(RESULTS, online_cells(pa.concat_tables(found)), timestamp=stamp)
