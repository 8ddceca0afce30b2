"""The work of Spark's Python workers, processes that load the team's metrics first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from sluice.metrics import load_team

#: Takes an iterator of record batches, gives an iterator of record batches.
Work = Callable[[Any], Iterator[pa.RecordBatch]]


def with_metrics(work: Work) -> Work:
    """The same work, for a worker that may not have loaded the team's metrics yet."""
    return partial(_load_and_run, work)


def _load_and_run(work: Work, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    load_team()
    yield from work(batches)
