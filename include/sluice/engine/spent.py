"""What aggregating took: a row for each task and place, measured at that place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

#: In place of a worker's number: the work was done where the lines are.
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
    """How many tuples of a task were aggregated in one place, and what that took.

    seconds: the time it took. rows: the partial aggregates that came out. worker: the worker that did it, or
    AT_SOURCE; then source is the number of the source. A source that sent its tuples has 0 seconds and 0
    rows.
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
