"""What a committed batch tells of each task's keys, workers and costs: nothing is measured for it anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sluice.grouping.auto import top_share
from sluice.metrics import COLUMNS
from sluice.metrics.typing import Floats, Ints
from sluice.statistics.grouped.spent import SPENT
from sluice.statistics.partition_pass import Gathered
from sluice.statistics.set_aside import Version, versions_of

#: Of a state that is no bytes: a number.
_NUMBER_BYTES = 8


@dataclass(frozen=True)
class TaskBatch:
    """One task's part of a batch.

    keys, counts: its tuples by key, each key once. groups: keys by period. state: bytes of a group's partial
    aggregate. spent: its rows of SPENT. routers: those that came back, by source. held: keys and the workers
    that held them (`partition_pass.HOLDERS`).
    """

    keys: pa.Array
    counts: Ints
    groups: int
    state: float
    spent: pa.Table
    routers: Mapping[int, bytes]
    held: pa.Table

    @property
    def tuples(self) -> int:
        return int(self.counts.sum())

    @property
    def top(self) -> float:
        """The part of all tuples that the most frequent key has."""
        return top_share(self.counts)

    @property
    def rows(self) -> int:
        """Partial aggregates before they were merged."""
        return int(_column(self.spent, "rows").sum())

    @property
    def cost(self) -> float:
        """Seconds a tuple took to be aggregated."""
        aggregated = self.spent.filter(pc.greater(self.spent.column("rows"), 0))
        return float(_column(aggregated, "seconds").sum() / max(1, _column(aggregated, "tuples").sum()))

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
    """The tasks that counted a line in the batch."""
    if not found.partials.num_rows:
        return {}
    spent, routers, held = (_by_version(each) for each in (found.spent, found.routers, found.holders))
    batches = {}
    for version, own in _by_version(_by_key(found.partials)).items():
        groups = int(pc.sum(own.column("lines_count")).as_py())
        batches[version] = TaskBatch(
            keys=own.column("key").combine_chunks(),
            counts=_column(own, "lines_sum"),
            groups=groups,
            state=float(pc.sum(own.column("bytes_sum")).as_py()) / groups,
            spent=spent.get(version, SPENT.empty_table()),
            routers={row["source"]: row["state"] for row in reversed(_rows(routers.get(version)))},
            held=held.get(version, found.holders.slice(0, 0)),
        )
    return batches


def _by_key(partials: pa.Table) -> pa.Table:
    """Tuples, groups and bytes of state by version and key."""
    keys = ["task_id", "version", "key"]
    table = partials.select([*keys, "lines"]).append_column("bytes", pa.array(_state_bytes(partials)))
    grouped = table.group_by(keys, use_threads=False)
    return grouped.aggregate([("lines", "sum"), ("lines", "count"), ("bytes", "sum")])


def _state_bytes(partials: pa.Table) -> Ints:
    """Bytes of each row's states."""
    total = np.zeros(partials.num_rows, np.int64)
    for name in COLUMNS:
        column = partials.column(name)
        if column.null_count == len(column):
            continue
        if pa.types.is_binary(column.type):
            total += np.asarray(pc.binary_length(column).fill_null(0), np.int64)
        else:
            total += _NUMBER_BYTES * np.asarray(column.is_valid(), np.int64)
    return total


def _by_version(table: pa.Table) -> dict[Version, pa.Table]:
    return dict(versions_of(table)) if table.num_rows else {}


def _rows(table: pa.Table | None) -> list[dict[str, Any]]:
    return [] if table is None else list(table.to_pylist())


def _column(table: pa.Table, name: str) -> npt.NDArray[Any]:
    return np.asarray(table.column(name))
