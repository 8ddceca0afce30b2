"""A request to write many cells, as Thrift's bytes, made column by column.

It is what `mutateRowsTs` of HBase's Thrift server takes, in Thrift's binary protocol. Made of objects, it
costs 2 us a cell, which is most of what a projection costs; made by Arrow, a tenth of that.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.runtime.arrays import Ints

#: The column with the row keys; each other column is named like HBase's, and its nulls are no cells.
ROW = "row"
METHOD = "mutateRowsTs"

# Thrift's types, and the version of its binary protocol with the kind of message.
_BOOL, _I64, _STRING, _STRUCT, _MAP, _LIST = 2, 10, 11, 12, 13, 15
_CALL = 0x80010001
_STOP = b"\0"
_NOTHING = pa.scalar(b"", pa.large_binary())


def requests(table: str, cells: pa.Table, timestamp: int, rows: int, size: int) -> Iterator[bytes]:
    """Requests that write the cells with that timestamp (ms), in order.

    Each has at most `rows` rows, and either one row or at most `size` bytes of rows. `cells`: see ROW; texts
    or binary.
    """
    encoded, ends = _encoded(cells)
    begin = 0
    while begin < len(ends):
        start = int(ends[begin - 1]) if begin else 0
        fit = int(np.searchsorted(ends, start + size, "right"))
        end = min(max(fit, begin + 1), begin + rows)
        body = encoded[start : int(ends[end - 1])]
        yield b"".join((_head(table, end - begin), body, _tail(timestamp)))
        begin = end


def _encoded(cells: pa.Table) -> tuple[memoryview, Ints]:
    """All rows as BatchMutations one after the other, and where each ends."""
    names = [name for name in cells.column_names if name != ROW]
    values = [_binary(cells.column(name)) for name in names]
    counts = np.sum([value.is_valid().to_numpy(zero_copy_only=False) for value in values], axis=0)
    parts = [
        _constant(_field(_STRING, 1)),
        *_with_length(_binary(cells.column(ROW))),
        _constant(_field(_LIST, 2) + bytes([_STRUCT])),
        _big_endian(counts),
    ]
    for name, value in zip(names, values, strict=True):
        parts += [_mutation(name.encode(), value)]
    joined = pc.binary_join_element_wise(*parts, _constant(_STOP), _NOTHING)
    ends = np.frombuffer(joined.buffers()[1], np.int64)[joined.offset : joined.offset + len(joined) + 1]
    return memoryview(joined.buffers()[2] or b""), ends[1:]


def _mutation(column: bytes, values: pa.Array) -> pa.Array:
    """Each value as a Mutation; nothing where it is null."""
    head = _field(_BOOL, 1) + b"\0" + _field(_STRING, 2) + _text(column) + _field(_STRING, 3)
    logged = _field(_BOOL, 4) + b"\1" + _STOP
    made = pc.binary_join_element_wise(
        _constant(head), *_with_length(values), _constant(logged), _NOTHING, null_handling="emit_null"
    )
    return made.fill_null(b"")


def _with_length(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    return _big_endian(pc.binary_length(values).fill_null(0).to_numpy(zero_copy_only=False)), values


def _big_endian(numbers: Ints) -> pa.Array:
    """Each number as four bytes."""
    offsets = np.arange(0, 4 * len(numbers) + 1, 4, dtype=np.int64)
    data = numbers.astype(">i4").tobytes()
    return pa.Array.from_buffers(
        pa.large_binary(), len(numbers), [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def _binary(column: pa.ChunkedArray) -> pa.Array:
    """The column in one piece, which may have more than 2 GiB."""
    whole = column.cast(pa.large_binary()).combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)


def _constant(value: bytes) -> pa.Scalar:
    return pa.scalar(value, pa.large_binary())


def _head(table: str, rows: int) -> bytes:
    name, size = METHOD.encode(), struct.pack(">i", rows)
    return b"".join(
        (
            struct.pack(">I", _CALL),
            _text(name),
            struct.pack(">i", 0),  # the number of the request
            _field(_STRING, 1),
            _text(table.encode()),
            _field(_LIST, 2),
            bytes([_STRUCT]),
            size,
        )
    )


def _tail(timestamp: int) -> bytes:
    attributes = _field(_MAP, 4) + bytes([_STRING, _STRING]) + struct.pack(">i", 0)
    return _field(_I64, 3) + struct.pack(">q", timestamp) + attributes + _STOP


def _field(kind: int, number: int) -> bytes:
    return struct.pack(">bh", kind, number)


def _text(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value
