"""The Arrow tables that flow through the engine, the same in both layers.

Docstrings name a table by its schema, in capitals: PARTIALS are rows of `partials_schema()`.
"""

from __future__ import annotations

import functools

import pyarrow as pa
import pyarrow.compute as pc

from sluice.metrics import accumulator_columns

#: What names a partial aggregate: a task version, a period and a series (`rowkey.series_key`).
KEYS = ("task_id", "version", "period_start", "key")


@functools.cache
def partials_schema() -> pa.Schema:
    """Partial aggregates (PARTIALS): the keys, then every accumulator's columns.

    A column is null for tasks that do not need it.
    """
    return pa.schema(
        [
            pa.field("task_id", pa.int32(), nullable=False),
            pa.field("version", pa.int32(), nullable=False),
            pa.field("period_start", pa.int64(), nullable=False),  # ms since the epoch
            pa.field("key", pa.string(), nullable=False),
            *(pa.field(name, kind) for name, kind in accumulator_columns().items()),
        ]
    )


def of_version(table: pa.Table, task_id: int, version: int) -> pa.ChunkedArray:
    """Which rows are this task version's; `table` has the columns task_id and version."""
    return pc.and_(pc.equal(table["task_id"], task_id), pc.equal(table["version"], version))
