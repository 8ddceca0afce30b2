"""Batches of lines of a size that suits the pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

# The engine's fixed cost is spread over this many lines, or over fewer that have PASS_BYTES.
PASS_LINES = 262_144
PASS_BYTES = 128 << 20


def together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same lines in fewer, larger batches; what is half full already is not copied to be full."""
    for group in gathered((batch for batch in batches if len(batch)), PASS_LINES, PASS_BYTES):
        yield group[0] if len(group) == 1 else pa.concat_batches(group)


def gathered(
    batches: Iterable[pa.RecordBatch], most_rows: int, most_bytes: int
) -> Iterator[list[pa.RecordBatch]]:
    """The batches in groups of about `most_rows` rows or `most_bytes` bytes.

    A group that is half full is not filled beyond `most_rows`.
    """
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if 2 * rows >= most_rows and rows + len(batch) > most_rows:
            yield waiting
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows += len(batch)
        size += batch.nbytes
        if rows >= most_rows or size >= most_bytes:
            yield waiting
            waiting, rows, size = [], 0, 0
    if waiting:
        yield waiting
