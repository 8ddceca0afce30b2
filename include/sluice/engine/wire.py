"""What a batch's stages find, as rows of (kind, Arrow IPC bytes).

So one job returns tables of several shapes. Between two stages, and after the second, a row also has a
worker.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

#: What a batch's last stage yields.
FOUND = pa.schema([("kind", pa.string()), ("payload", pa.binary())])
#: The same with a worker: the one that a row is for or, in ROUTED, the one that made it.
SENT = FOUND.append(pa.field("worker", pa.int32()))

PARTIAL, SEEN, DAYS, DEAD, COUNTS, FAILED = "partials", "seen", "days", "dead", "counts", "failed"
#: What became of the lines with a time (`engine.outcomes`): TALLIES, and samples, SKIPPED.
TALLY, SKIP = "tally", "skip"
#: For routed tasks: what is sent, what workers made of it, and the state of the routers afterwards.
TUPLES, ROUTED, ROUTERS = "tuples", "routed", "routers"
SPENT = "spent"
#: For operators (`speed.observed`): lines by arrival, and what each task version took.
ARRIVED, TAKEN = "arrived", "taken"
#: What is learnt of keys, and which workers held them (HOLDERS).
KEYS, HELD = "keys", "held"
#: What became of the state: STATED, and OUTGROWN.
STATE, OLD = "state", "old"
#: Periods with a block that cannot be read: nothing was written (DAMAGED).
LOST = "lost"

#: Which workers hold a partial aggregate of a task's key.
HOLDERS = pa.schema(
    [("task_id", pa.int32()), ("version", pa.int32()), ("key", pa.string()), ("worker", pa.int32())]
)

#: A period that was changed, or a part of one: its layout now and since when, its blocks that were written
#: and their bytes, and whether it needs a wider layout that this part cannot give it. `late`: it was not even
#: written, because a block is too large for that.
STATED = pa.schema(
    [
        ("task_id", pa.int32()),
        ("version", pa.int32()),
        ("period_start", pa.int64()),
        ("layout", pa.int32()),
        ("since", pa.int64()),
        ("blocks", pa.int32()),
        ("bytes", pa.int64()),
        ("widen", pa.bool_()),
        ("late", pa.bool_()),
    ]
)

#: Columns of `state` in layouts that periods outgrew: they are of no use once the batch is committed.
OUTGROWN = pa.schema([("row", pa.binary()), ("column", pa.binary())])

#: A period with a block that is lost or damaged, as it was committed, and what is wrong.
DAMAGED = pa.schema(
    [
        ("task_id", pa.int32()),
        ("version", pa.int32()),
        ("period_start", pa.int64()),
        ("layout", pa.int32()),
        ("since", pa.int64()),
        ("seq", pa.int64()),
        ("bytes", pa.int64()),
        ("why", pa.string()),
    ]
)


def to_ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def rows_of(tables: Iterable[tuple[str, pa.Table]], worker: int | None = None) -> pa.RecordBatch:
    """The tables that are not empty, as rows of FOUND, or of SENT for a worker."""
    found = [(kind, to_ipc(table)) for kind, table in tables if table.num_rows]
    columns = [
        pa.array([kind for kind, _ in found], pa.string()),
        pa.array([payload for _, payload in found], pa.binary()),
    ]
    if worker is None:
        return pa.RecordBatch.from_arrays(columns, schema=FOUND)
    return pa.RecordBatch.from_arrays([*columns, pa.array([worker] * len(found), pa.int32())], schema=SENT)
