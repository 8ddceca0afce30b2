"""Binary Arrow columns of sketches to and from one numpy array of all rows' bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sluice.runtime.arrays import Bools, Bytes, Ints

#: Offsets of Arrow's binary type are 32 bits.
MAX_BYTES = (1 << 31) - 1
_WORD = 8


class AccumulatorTooLarge(ValueError):
    """More bytes of sketches than one Arrow column holds."""


class Damaged(ValueError):
    """A stored sketch that cannot be read."""

    def __init__(self, column: str) -> None:
        super().__init__(
            f"a state of {column} is damaged: count the task again by `sluice rebuild`, then resume it"
        )


def buffers(column: pa.Array) -> tuple[Bytes, Ints]:
    """The bytes of a string or binary column, and its rows' bounds; null rows are empty.

    There is one bound more than there are rows.
    """
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    whole = np.frombuffer(data if data is not None else b"", np.uint8)
    return whole, bounds.astype(np.int64)


def words(column: pa.Array, name: str) -> tuple[Ints, Ints]:
    """The words (8 bytes) of a binary column, and its rows' bounds in words. Raises Damaged."""
    if len(column) == 0:
        return np.empty(0, np.int64), np.zeros(1, np.int64)
    data, bounds = buffers(column)
    if (np.diff(bounds) % _WORD).any():
        raise Damaged(name)
    own = data[bounds[0] : bounds[-1]]
    if own.ctypes.data % _WORD:  # a slice may begin anywhere
        own = own.copy()
    return own.view(np.int64), (bounds - bounds[0]) // _WORD


def binary(data: Bytes | Ints, bounds: Ints) -> pa.Array:
    """A binary column out of `buffers` or `words`; empty rows are null. Raises AccumulatorTooLarge."""
    bounds = bounds * data.itemsize
    if bounds[-1] > MAX_BYTES:
        raise AccumulatorTooLarge(
            f"{bounds[-1] >> 20} MiB of sketches in one batch, at most {MAX_BYTES >> 20} are possible: "
            "make fewer series (fewer dimensions, or a filter)"
        )
    there = np.diff(bounds) > 0
    return pa.Array.from_buffers(
        pa.binary(), len(there), [_bits(there), pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(data)]
    )


def _bits(valid: Bools) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
