"""Partial aggregates on their way through Spark's shuffle, as a few large values.

A day can have as many partial aggregates as lines. As rows of twenty columns each would be made three times:
by the JVM before the shuffle, by the shuffle, and by the JVM after it. So the Python workers themselves deal
them out to buckets. A row of the shuffle is a bucket and an Arrow table of up to PAYLOAD_BYTES.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sluice.engine.dealt_out import dealt_out
from sluice.engine.schema import partials_schema
from sluice.engine.wire import to_ipc
from sluice.metrics.packed import buffers

#: The rows of the shuffle.
SHUFFLED = pa.schema([("bucket", pa.int32()), ("payload", pa.binary())])
#: A payload has about this size, or is one partial aggregate that is larger.
PAYLOAD_BYTES = 8 << 20
_ODD = np.uint64(0x9E3779B97F4A7C15)


def dealt(batches: Iterator[pa.RecordBatch], buckets: int) -> Iterator[pa.RecordBatch]:
    """PARTIALS as SHUFFLED; those of a series and period always have the same bucket."""
    for batch in batches:
        filled = pa.Table.from_batches([_filled(batch)])
        rows = max(1, int(PAYLOAD_BYTES * len(batch) / max(1, filled.nbytes)))
        for bucket, own in dealt_out(filled, bucket_of(batch, buckets)):
            for begin in range(0, len(own), rows):
                payload = to_ipc(own.slice(begin, rows))
                yield pa.record_batch(
                    [pa.array([bucket], pa.int32()), pa.array([payload], pa.binary())], SHUFFLED
                )


def partials(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """SHUFFLED back to PARTIALS."""
    for batch in batches:
        for payload in batch.column("payload"):
            yield from _whole(pa.ipc.open_stream(payload.as_buffer()).read_all()).to_batches()


def _filled(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Without the columns that are null in all rows, such as those of sketches that no task asks for."""
    names = batch.schema.names
    return batch.select([name for name in names if batch.column(name).null_count < len(batch)])


def _whole(table: pa.Table) -> pa.Table:
    """PARTIALS of what `_filled` left of them."""
    there = set(table.schema.names)
    columns = [
        table.column(field.name) if field.name in there else pa.nulls(len(table), field.type)
        for field in partials_schema()
    ]
    return pa.table(columns, schema=partials_schema())


def bucket_of(batch: pa.RecordBatch, buckets: int) -> npt.NDArray[np.uint16]:
    """The bucket of each partial aggregate, by a hash of what names it: the same in every process.

    So the series of one large period are merged by all tasks. The speed layer's tasks write blocks of state,
    and no two of them may write the same block: there a period stays whole (`state.dealing`).
    """
    from sluice.metrics.kernels.hashing import hash_all

    if not len(batch):
        return np.empty(0, np.uint16)
    hashed = hash_all(*buffers(batch.column("key")))
    for name in ("task_id", "version", "period_start"):
        number = batch.column(name).to_numpy().astype(np.int64).view(np.uint64)
        hashed = (hashed ^ number) * _ODD
        hashed ^= hashed >> np.uint64(32)
    return (hashed % np.uint64(buckets)).astype(np.uint16)
