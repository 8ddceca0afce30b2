"""Lines cut at a delimiter: each requested field is a column."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.runtime.arrays import Bytes, Ints

#: From this many lines on, the kernels are worth the time that numba takes to load.
COMPILED_LINES = 8_192


#: A column as a dictionary: a code per line, and the distinct values. Their number is the code for nothing.
Encoded = tuple[Ints, pa.Array]

#: See `kernels.encode`.
_SEED = np.uint64(int.from_bytes(os.urandom(8)))


class Fields(Protocol):
    """Columns of one delimiter."""

    indexes: Sequence[int]

    def column(self, index: int) -> Encoded:
        """The field at that index (one of `indexes`); lines with fewer fields have nothing."""


def raw(lines: pa.Array) -> tuple[Ints, Ints, Bytes]:
    """Where each line starts and ends in the buffer that holds them all, and that buffer.

    `lines` are text or binary, without nulls.
    """
    _, offsets, data = lines.buffers()
    bounds = np.frombuffer(offsets, np.int32)[lines.offset : lines.offset + len(lines) + 1].astype(np.int64)
    return bounds[:-1], bounds[1:], np.frombuffer(data if data is not None else b"", np.uint8)


def cut(text: pa.Array, delimiter: str, indexes: Sequence[int]) -> Fields:
    """The fields of these indexes (rising), cut at every occurrence of the delimiter."""
    if len(text) >= COMPILED_LINES and len(delimiter.encode()) == 1:
        return _Compiled(text, delimiter, indexes)
    return _Split(text, delimiter, indexes)


def encode(column: pa.Array) -> Encoded:
    """A string column, which may have nulls, as a dictionary."""
    encoded = column.dictionary_encode()
    codes = encoded.indices.fill_null(len(encoded.dictionary)).to_numpy(zero_copy_only=False)
    return codes.astype(np.int64), encoded.dictionary


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
    """Fields cut by kernels, which read each byte once in place and copy only distinct values."""

    def __init__(self, text: pa.Array, delimiter: str, indexes: Sequence[int]) -> None:
        from sluice.engine import kernels

        self.indexes = indexes
        starts, ends, self._data = raw(text)
        self._begin, self._end = (np.empty((len(indexes), len(text)), np.int64) for _ in range(2))
        wanted = np.array(indexes, np.int64)
        kernels.cut(self._data, starts, ends, ord(delimiter), wanted, self._begin, self._end)

    def column(self, index: int) -> Encoded:
        from sluice.engine import kernels

        k = list(self.indexes).index(index)
        begin, end = self._begin[k], self._end[k]
        lines = len(begin)
        codes, first = np.empty(lines, np.int64), np.empty(lines, np.int64)
        table = np.full(1 << (2 * lines).bit_length(), -1, np.int32)
        size = kernels.encode(self._data, begin, end, _SEED, table, first, codes)
        codes[codes < 0] = size
        begin, end = begin[first[:size]], end[first[:size]]
        offsets = np.empty(size + 1, np.int32)
        kernels.sizes(begin, end, offsets)
        out = np.empty(offsets[-1], np.uint8)
        kernels.copy(self._data, begin, offsets, out)
        return codes, pa.StringArray.from_buffers(size, pa.py_buffer(offsets), pa.py_buffer(out))
