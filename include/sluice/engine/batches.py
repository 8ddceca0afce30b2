"""Batches of lines of a size that suits the pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

# The engine's fixed cost is spread over this many lines, or over fewer that have PASS_BYTES.
PASS_LINES = 262_144
PASS_BYTES = 128 << 20


def together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same lines in fewer, larger batches."""
    waiting: list[pa.RecordBatch] = []
    lines = size = 0
    for batch in batches:
        if len(batch):
            waiting.append(batch)
            lines += len(batch)
            size += batch.nbytes
        if lines >= PASS_LINES or size >= PASS_BYTES:
            yield pa.concat_batches(waiting)
            waiting, lines, size = [], 0, 0
    if waiting:
        yield pa.concat_batches(waiting)
