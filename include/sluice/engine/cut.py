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
        from sluice.engine.kernels import dictionaries

        self.indexes = indexes
        self._values = values = _Values(len(indexes))
        self._codes = np.empty((len(indexes), len(text)), np.int32)
        bounds, self._data = raw(text)
        wanted, line = np.array(indexes, np.int64), 0
        while line < len(text):
            line = dictionaries.encode(
                self._data,
                bounds,
                line,
                ord(delimiter),
                wanted,
                _SEED,
                values.at,
                values.entries,
                values.tables,
                values.hashes,
                values.begins,
                values.lengths,
                self._codes,
                values.sizes,
            )
            values.grow()

    def column(self, index: int) -> Encoded:
        k = list(self.indexes).index(index)
        return self._values.encoded(k, self._data, self._codes[k])


def encode_stretches(data: Bytes, begins: Int32s, lengths: Int32s) -> Encoded:
    """The stretches `data[begins[n]:begins[n] + lengths[n]]` as a dictionary; a length below 1: nothing."""
    from sluice.engine.kernels import dictionaries

    values, codes, line = _Values(1), np.empty((1, len(begins)), np.int32), 0
    while line < len(begins):
        line = dictionaries.encode_stretches(
            data,
            begins,
            lengths,
            line,
            _SEED,
            values.at,
            values.entries,
            values.tables,
            values.hashes,
            values.begins,
            values.lengths,
            codes,
            values.sizes,
        )
        values.grow()
    return values.encoded(0, data, codes[0])


class _Values:
    """The distinct values of several columns, and a hash table of each column's.

    All stand one after the other in the same arrays, so that a column takes no more room than its values
    need: most have few, and to clear arrays for the worst case would cost more than to cut the lines.
    """

    _FIRST, _TIMES = 512, 4

    def __init__(self, columns: int) -> None:
        self.sizes = np.zeros(columns, np.int64)
        self.entries = np.full(columns, self._FIRST)
        # Where a column's table begins; its values begin at half of that.
        self.at = np.arange(columns) * self._FIRST
        self._used = columns * self._FIRST
        self.tables = np.full(self._used, -1, np.int32)
        self.hashes = np.empty(self._used // 2, np.uint64)
        self.begins, self.lengths = (np.empty(self._used // 2, np.int32) for _ in range(2))

    def encoded(self, k: int, data: Bytes, codes: Int32s) -> Encoded:
        """Column k of this data. codes: of each line (-1: nothing)."""
        from sluice.engine.kernels import dictionaries

        size, at = int(self.sizes[k]), int(self.at[k]) // 2
        codes[codes < 0] = size
        begins, lengths = self.begins[at : at + size], self.lengths[at : at + size]
        offsets = np.zeros(size + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        out = np.empty(offsets[-1], np.uint8)
        dictionaries.copy(data, begins, offsets, out)
        return codes, pa.StringArray.from_buffers(size, pa.py_buffer(offsets), pa.py_buffer(out))

    def grow(self) -> None:
        """Give each column whose table is half full a larger one, at the end."""
        from sluice.engine.kernels import dictionaries

        for k in np.flatnonzero(2 * self.sizes >= self.entries).tolist():
            before, size, at = int(self.at[k]) // 2, int(self.sizes[k]), self._used
            self.entries[k] *= self._TIMES
            self._used += int(self.entries[k])
            self._reserve()
            for values in (self.hashes, self.begins, self.lengths):
                values[at // 2 : at // 2 + size] = values[before : before + size]
            table = self.tables[at : self._used]
            table[:] = -1
            dictionaries.enter(table, self.hashes[at // 2 :], self.lengths[at // 2 :], size, _SEED)
            self.at[k] = at

    def _reserve(self) -> None:
        if self._used > len(self.tables):
            room = max(self._used, 2 * len(self.tables))
            self.tables = np.resize(self.tables, room)
            self.hashes = np.resize(self.hashes, room // 2)
            self.begins, self.lengths = (np.resize(a, room // 2) for a in (self.begins, self.lengths))
