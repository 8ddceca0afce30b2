"""What a committed batch tells of each task's keys, workers and costs.

Nothing is measured a second time for it. The driver reads it after every batch, so it must cost next to
nothing (`learning`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sluice.engine.groups import code
from sluice.engine.set_aside import Version
from sluice.engine.spent import SPENT
from sluice.engine.wire import HOLDERS
from sluice.runtime.arrays import Floats, Ints
from sluice.speed.partition_pass import Gathered


@dataclass(frozen=True)
class TaskBatch:
    """One task's part of a batch.

    keys: its rows of LEARNT. spent: its rows of SPENT. routers: those that came back, by source. held: keys
    and the workers that held them (`wire.HOLDERS`).
    """

    keys: pa.Table
    spent: pa.Table
    routers: Mapping[int, bytes]
    held: pa.Table

    @cached_property
    def by_key(self) -> tuple[pa.Array, Ints]:
        """Its named keys, each once, and how many tuples each has."""
        named = self.keys.filter(self.keys.column("key").is_valid())
        coded, distinct = code(_whole(named.column("key")))
        lines = np.bincount(coded.codes, _column(named, "lines"), coded.size)
        return distinct, lines.astype(np.int64)

    @property
    def counts(self) -> Ints:
        return self.by_key[1]

    @cached_property
    def tuples(self) -> int:
        return int(_column(self.keys, "lines").sum())

    @property
    def unnamed(self) -> int:
        """The most tuples that a key without a name has."""
        rest = self.keys.filter(self.keys.column("key").is_null())
        return int(_column(rest, "most").sum())

    @property
    def groups(self) -> int:
        """The number of series, each counted once a period."""
        return int(_column(self.keys, "groups").sum())

    @property
    def state(self) -> float:
        """The mean bytes of a series' partial aggregate."""
        return float(_column(self.keys, "bytes").sum() / max(1, self.groups))

    @property
    def top(self) -> float:
        """The part of all tuples that the most frequent key has."""
        return float(self.counts.max(initial=0) / max(1, self.tuples))

    @property
    def rows(self) -> int:
        """The number of partial aggregates before they were merged."""
        return int(_column(self.spent, "rows").sum())

    @property
    def cost(self) -> float:
        """The seconds that it took to aggregate a tuple."""
        done = _column(self.spent, "rows") > 0
        seconds, tuples = _column(self.spent, "seconds")[done], _column(self.spent, "tuples")[done]
        return float(seconds.sum() / max(1, tuples.sum()))

    @property
    def widest(self) -> float:
        """The part of all tuples that the largest source has."""
        sources, tuples = _column(self.spent, "source"), _column(self.spent, "tuples")
        own = sources >= 0
        if not own.any():
            return 1.0
        return float(np.bincount(sources[own], tuples[own]).max() / max(1, tuples[own].sum()))

    def by_worker(self, workers: int) -> tuple[Ints, Floats]:
        """Tuples and seconds of each worker."""
        numbers, tuples = _column(self.spent, "worker"), _column(self.spent, "tuples")
        own = numbers >= 0
        found = np.bincount(numbers[own], tuples[own], workers).astype(np.int64)
        seconds = np.bincount(numbers[own], _column(self.spent, "seconds")[own], workers)
        return found, np.asarray(seconds, np.float64)


def by_task(found: Gathered) -> dict[Version, TaskBatch]:
    """Each task's part of the batch, for the tasks that counted a line in it."""
    spent, routers, held = (_by_version(each) for each in (found.spent, found.routers, found.holders))
    return {
        version: TaskBatch(
            keys=own,
            spent=spent.get(version, SPENT.empty_table()),
            routers={row["source"]: row["state"] for row in reversed(_rows(routers.get(version)))},
            held=held.get(version, HOLDERS.empty_table()),
        )
        for version, own in _by_version(found.learnt).items()
    }


def _by_version(table: pa.Table) -> dict[Version, pa.Table]:
    """Each version's rows."""
    if not table.num_rows:
        return {}
    ids, versions = _column(table, "task_id"), _column(table, "version")
    order = np.lexsort([versions, ids])
    ids, versions = ids[order], versions[order]
    begins = np.flatnonzero(np.append(True, (np.diff(ids) != 0) | (np.diff(versions) != 0)))
    if (np.diff(order) != 1).any():
        table = table.take(pa.array(order))
    ends = np.append(begins[1:], len(order))
    return {
        (int(ids[begin]), int(versions[begin])): table.slice(begin, end - begin)
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
    }


def _rows(table: pa.Table | None) -> list[dict[str, Any]]:
    return [] if table is None else list(table.to_pylist())


def _column(table: pa.Table, name: str) -> npt.NDArray[Any]:
    return np.asarray(table.column(name))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
