"""Tuples: the lines that a task counts, on their way to the workers that aggregate them.

A tuple stands for one line. It has what an accumulator may ask of the line: its period, its series' key, and
its measure. The measure is the text that was cut out; the worker reads a number from it as the source would
have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.aggregation import Grouping
from sluice.engine.extract import ExtractedValues
from sluice.engine.plan import TaskPlan
from sluice.engine.set_aside import Version
from sluice.engine.wire import to_ipc
from sluice.metrics.packed import buffers
from sluice.runtime.arrays import Hashes, Int32s, Ints

TUPLES = pa.schema(
    [
        pa.field("period_start", pa.int64(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
        pa.field("measure", pa.string()),  # null: the line has none
    ]
)
#: A worker is sent at most this much at a time, or a single tuple that is larger.
PAYLOAD_BYTES = 8 << 20
#: The size of a tuple besides its texts: a time and two offsets.
_FIXED_BYTES = 16


def hash_keys(keys: pa.Array) -> Hashes:
    """The hash by which each key is routed: XXH64, the same on every machine."""
    from sluice.metrics.kernels.hashing import hash_all

    return hash_all(*buffers(keys)) if len(keys) else np.empty(0, np.uint64)


@dataclass(frozen=True)
class Tuples:
    """One task's tuples of a batch: group and measure by tuple, period and key by group."""

    version: Version
    groups: Int32s
    period_start: pa.Array
    key: pa.Array
    measure: ExtractedValues | None

    @classmethod
    def of(cls, task: TaskPlan, grouping: Grouping, measure: ExtractedValues | None) -> Tuples:
        """The tuples of a task. Keeps nothing of `grouping` that the next one overwrites.

        `measure`: of all lines of the batch.
        """
        if measure is not None and grouping.rows is not None:
            measure = ExtractedValues(measure.codes[grouping.rows], measure.distinct)
        groups = np.array(grouping.groups.numbers, np.int32)
        return cls(task.key, groups, grouping.period_start, grouping.key, measure)

    def __len__(self) -> int:
        return len(self.groups)

    @property
    def hashes(self) -> Hashes:
        """The hash of each tuple's key."""
        return hash_keys(self.key)[self.groups]

    def table(self, order: npt.NDArray[np.intp]) -> pa.Table:
        """TUPLES, in this order."""
        groups = pa.array(self.groups[order])
        return pa.table(
            [self.period_start.take(groups), self.key.take(groups), self._measures(order)], schema=TUPLES
        )

    def _measures(self, order: npt.NDArray[np.intp]) -> pa.Array:
        if self.measure is None:
            return pa.nulls(len(order), pa.string())
        codes = self.measure.codes[order]
        return self.measure.distinct.take(pa.array(codes, mask=codes == len(self.measure.distinct)))


def payloads(tuples: Tuples, targets: Int32s, workers: int) -> Iterator[tuple[int, bytes]]:
    """What each worker gets (see `read`); `targets`: the worker of each tuple."""
    order = np.argsort(targets.astype(np.uint16), kind="stable")  # a radix sort, as always for 16 bits
    bounds = np.searchsorted(targets[order], np.arange(workers + 1))
    task_id, version = tuples.version
    table = tuples.table(order).replace_schema_metadata({"task_id": str(task_id), "version": str(version)})
    upto = np.cumsum(_sizes(table))
    for worker in np.flatnonzero(np.diff(bounds)).tolist():
        start, end = bounds[worker], bounds[worker + 1]
        while start < end:
            before = upto[start - 1] if start else 0
            cut = np.searchsorted(upto, before + PAYLOAD_BYTES, side="right")
            cut = min(max(cut, start + 1), end)
            yield worker, to_ipc(table.slice(start, cut - start))
            start = cut


def read(payload: pa.Buffer) -> tuple[Version, pa.Table]:
    """A payload's task version and its TUPLES."""
    table = pa.ipc.open_stream(payload).read_all()
    metadata = table.schema.metadata
    return (int(metadata[b"task_id"]), int(metadata[b"version"])), table.replace_schema_metadata(None)


def _sizes(table: pa.Table) -> Ints:
    """Bytes of each tuple."""
    texts = (pc.binary_length(table.column(name)).fill_null(0) for name in ("key", "measure"))
    return np.asarray(sum(np.asarray(each, np.int64) for each in texts) + _FIXED_BYTES)
