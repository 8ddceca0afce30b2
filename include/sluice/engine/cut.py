"""Lines cut at a delimiter: each requested field is a column."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.runtime.arrays import Bytes, Int32s, Ints

#: From this many lines on, the kernels are worth the time that numba takes to load.
COMPILED_LINES = 8_192


#: A column as a dictionary: a code per line, and the distinct values. Their number is the code for nothing.
Encoded = tuple[Int32s, pa.Array]

#: See `dictionaries.encode`: each process has its own.
_SEED = np.uint64(int.from_bytes(os.urandom(8)) | 1)


class Fields(Protocol):
    """Columns of one delimiter."""

    indexes: Sequence[int]

    def column(self, index: int) -> Encoded:
        """The field at that index (one of `indexes`); lines with fewer fields have nothing."""


def raw(lines: pa.Array) -> tuple[Int32s, Bytes]:
    """The bounds of the lines in the buffer that holds them all (one more than lines), and that buffer.

    `lines` are text or binary, without nulls.
    """
    _, offsets, data = lines.buffers()
    bounds = np.frombuffer(offsets, np.int32)[lines.offset : lines.offset + len(lines) + 1]
    return bounds, np.frombuffer(data if data is not None else b"", np.uint8)


def stretches(lines: pa.Array) -> tuple[Ints, Ints, Bytes]:
    """Where each line starts and ends in that buffer, and the buffer."""
    bounds, data = raw(lines)
    wide = bounds.astype(np.int64)
    return wide[:-1], wide[1:], data


def cut(text: pa.Array, delimiter: str, indexes: Sequence[int]) -> Fields:
    """The fields of these indexes (rising), cut at every occurrence of the delimiter."""
    if len(text) >= COMPILED_LINES and len(delimiter.encode()) == 1:
        return _Compiled(text, delimiter, indexes)
    return _Split(text, delimiter, indexes)


def encode(column: pa.Array) -> Encoded:
    """A string column, which may have nulls, as a dictionary."""
    encoded = column.dictionary_encode()
    codes = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
    return codes, encoded.dictionary


class _Split:
    """Fields cut by pyarrow, which makes a text of each field up to the highest index."""

    def __init__(self, text: pa.Array, delimiter: str, indexes: Sequence[int]) -> None:
        self.indexes = indexes
        lists = pc.split_pattern(text, delimiter, max_splits=max(indexes) + 1)
        self._offsets, self._values = lists.offsets.to_numpy(), lists.values

    def column(self, index: int) -> Encoded:
        take = self._offsets[:-1].astype(np.int64) + index
        return encode(self._values.take(pa.array(take, mask=take >= self._offsets[1:])))


class _Compiled:
    """Fields cut by a kernel, which reads each byte once in place and copies only distinct values."""

    def __init__(self, text: pa.Array, delimiter: str, indexes: Sequence[int]) -> None:
        from sluice.engine import dictionaries

        self.indexes = indexes
        lines, columns = len(text), len(indexes)
        bounds, self._data = raw(text)
        # Only the part of these that distinct values need is ever touched.
        tables = np.empty((columns, 1 << max(2 * lines, 1).bit_length()), np.int32)
        hashes = np.empty((columns, lines), np.uint64)
        self._begins, self._lengths, self._codes = (np.empty((columns, lines), np.int32) for _ in range(3))
        self._sizes = np.empty(columns, np.int64)
        dictionaries.encode(
            self._data,
            bounds,
            ord(delimiter),
            np.array(indexes, np.int64),
            _SEED,
            tables,
            hashes,
            self._begins,
            self._lengths,
            self._codes,
            self._sizes,
        )

    def column(self, index: int) -> Encoded:
        from sluice.engine import dictionaries

        k = list(self.indexes).index(index)
        size, codes = int(self._sizes[k]), self._codes[k]
        codes[codes < 0] = size
        begins, lengths = self._begins[k, :size], self._lengths[k, :size]
        offsets = np.zeros(size + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        out = np.empty(offsets[-1], np.uint8)
        dictionaries.copy(self._data, begins, lengths, offsets, out)
        return codes, pa.StringArray.from_buffers(size, pa.py_buffer(offsets), pa.py_buffer(out))
