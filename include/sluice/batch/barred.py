"""Lines that the speed layer of an earlier release gave up for all tasks, because one of them skipped them.

They are no result's lines, and must not become one's when their day is computed again or filled: the batch
layer goes by the places of these dead letters. Today only the task itself skips such a line.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from sluice.runtime.arrays import Bools
from sluice.storage.tables.dead_letters import of_dimensions
from sluice.transmission.line_schema import LINE_IN_RECORD

REASON = "counted by no task in an earlier release"
#: Places of lines in Kafka.
PLACES = pa.schema([("partition", pa.int32()), ("offset", pa.int64()), (LINE_IN_RECORD, pa.int32())])


def barred(database: sa.Engine, topic: str) -> pa.Table:
    """The places (PLACES) of the topic's barred lines."""
    rows = [dict(zip(PLACES.names, place, strict=True)) for place in of_dimensions(database, topic)]
    return pa.Table.from_pylist(rows, PLACES)


def among(lines: pa.RecordBatch | pa.Table, places: pa.Table) -> Bools:
    """Which lines are at one of these places."""
    found = np.zeros(len(lines), bool)
    if not places.num_rows:
        return found
    near = pc.is_in(lines.column("offset"), places["offset"].combine_chunks())
    rows = np.flatnonzero(np.asarray(near))
    exact = set(zip(*(places[name].to_pylist() for name in PLACES.names), strict=True))
    own = (pc.fill_null(lines.column(name), 0).take(pa.array(rows)).to_pylist() for name in PLACES.names)
    found[rows] = [place in exact for place in zip(*own, strict=True)]
    return found
