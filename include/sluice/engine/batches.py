"""Batches of lines of a size that suits the pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

# The engine's fixed cost is spread over this many lines, or over fewer that have PASS_BYTES.
PASS_LINES = 262_144
PASS_BYTES = 128 << 20


def together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same lines in fewer, larger batches; what is half full already is not copied to be full."""
    waiting: list[pa.RecordBatch] = []
    lines = size = 0
    for batch in batches:
        if 2 * lines >= PASS_LINES and lines + len(batch) > PASS_LINES:
            yield _one(waiting)
            waiting, lines, size = [], 0, 0
        if len(batch):
            waiting.append(batch)
            lines += len(batch)
            size += batch.nbytes
        if lines >= PASS_LINES or size >= PASS_BYTES:
            yield _one(waiting)
            waiting, lines, size = [], 0, 0
    if waiting:
        yield _one(waiting)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
