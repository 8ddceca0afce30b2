"""Files are read in portions: in their order, each once, first one by one and then many together."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.lines import reading
from sluice.lines.reading import cut, read_ahead

SIZES = st.lists(st.tuples(st.integers(0, 40_000), st.integers(0, 9 << 20)), max_size=60)


def files(sizes: list[tuple[int, int]]) -> list[Any]:
    return [SimpleNamespace(n=n, lines=lines, bytes=size) for n, (lines, size) in enumerate(sizes)]


def rows(file: Any) -> Iterator[pa.RecordBatch]:
    """A file's lines in two batches."""
    for _ in range(2):
        yield pa.record_batch({"n": pa.array([file.n] * file.lines, pa.int64())})


@given(SIZES)
def test_portions_have_each_file_once_and_are_bounded(sizes: list[tuple[int, int]]) -> None:
    portions = list(cut(files(sizes)))
    assert [file.n for portion in portions for file in portion] == list(range(len(sizes)))
    for number, portion in enumerate(portions):
        assert 1 <= len(portion) <= min(reading.PORTION_FILES, 2 ** (number // reading.THREADS))
        if len(portion) > 1:
            assert sum(file.lines for file in portion) <= reading.PORTION_LINES
            assert sum(file.bytes for file in portion) <= reading.PORTION_BYTES


def test_the_lines_of_small_files_are_looked_at_together() -> None:
    looked_at: list[int] = []

    def look(batch: pa.RecordBatch) -> pa.RecordBatch:
        looked_at.append(batch.num_rows)
        return batch

    found = list(read_ahead(files([(3, 100)] * 100), rows, look))
    assert [file.n for portion, _ in found for file in portion] == list(range(100))
    shown = [n for _, batches in found for batch in batches for n in batch.column("n").to_pylist()]
    assert shown == [n for n in range(100) for _ in range(6)]
    assert len(looked_at) == len(found) < 30
    assert max(looked_at) > 6 * 8


def test_lines_of_many_bytes_are_not_looked_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BATCH_BYTES", 100)
    ((_, batches),) = read_ahead(files([(20, 100)]), rows, lambda batch: batch)
    assert [batch.num_rows for batch in batches] == [20, 20]


def test_a_file_that_cannot_be_read_ends_the_search_and_the_threads() -> None:
    def read(file: Any) -> Iterator[pa.RecordBatch]:
        raise OSError(f"away: {file.n}")

    with pytest.raises(OSError, match="away: 0"):
        list(read_ahead(files([(1, 1)] * 9), read, lambda batch: batch))
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("lines_")]
