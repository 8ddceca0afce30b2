"""What aggregating took: a row for each task and place, measured where it is done."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

#: Instead of a worker: where the lines are.
AT_SOURCE = -1

SPENT = pa.schema(
    [
        ("task_id", pa.int32()),
        ("version", pa.int32()),
        ("worker", pa.int32()),
        ("source", pa.int32()),
        ("tuples", pa.int64()),
        ("seconds", pa.float64()),
        ("rows", pa.int64()),
    ]
)


class Spent(NamedTuple):
    """tuples: aggregated, in so many seconds, to so many rows of partial aggregates.

    worker, source: who did it, or AT_SOURCE, and then whose lines these were. A source that sent its tuples
    has neither seconds nor rows.
    """

    task_id: int
    version: int
    worker: int
    source: int
    tuples: int
    seconds: float
    rows: int


def to_table(spent: Iterable[Spent]) -> pa.Table:
    return pa.Table.from_pylist([each._asdict() for each in spent], schema=SPENT)
