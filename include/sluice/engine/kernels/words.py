"""Eight bytes at a time, for kernels that read lines.

A *word* is eight bytes as one number, the first byte lowest. Import this module only from kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from sluice.runtime.arrays import Bytes
from sluice.runtime.compiled import compiled, inlined

_LOW = np.uint64(0x7F7F7F7F7F7F7F7F)
_ONES = np.uint64(0x0101010101010101)
_EIGHT = np.uint64(8)


@intrinsic
def _loaded(_typing: Any, data: Any, at: Any) -> Any:
    """The word at data[at:at + 8], wherever it lies; all of it must be inside the array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = builder.gep(array.data, [arguments[1]])
        return builder.load(builder.bitcast(pointer, ir.IntType(64).as_pointer()), align=1)

    return types.uint64(data, types.int64), generate


@intrinsic
def _zeros(_typing: Any, number: Any) -> Any:
    """How many of the lowest bits are 0; the number is not 0."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint64(types.uint64), generate


@inlined
def word(data: Bytes, at: int) -> np.uint64:
    """The word at data[at:at + 8]; what lies beyond the end of the array is 0."""
    if at + 8 <= len(data):
        return np.uint64(_loaded(data, at))  # type: ignore[call-arg]
    found = np.uint64(0)
    for n in range(at, len(data)):
        found |= np.uint64(data[n]) << np.uint64(8 * (n - at))
    return found


@inlined
def leading(value: np.uint64, count: int) -> np.uint64:
    """The first `count` bytes of a word (1 to 8), the rest 0."""
    return value & (np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(64 - 8 * count))


@inlined
def matches(value: np.uint64, byte: int) -> np.uint64:
    """The highest bit of each byte of a word that equals `byte`."""
    other = value ^ (_ONES * np.uint64(byte))
    return ~(((other & _LOW) + _LOW) | other | _LOW)


@inlined
def first_byte(found: np.uint64) -> int:
    """The place of the first byte in what `matches` found; it found one."""
    return int(_zeros(found) // _EIGHT)  # type: ignore[call-arg]


@compiled
def equal(data: Bytes, one: int, other: int, size: int) -> bool:
    """Whether two stretches of that size have the same bytes."""
    at = 0
    while at + 8 <= size:
        if word(data, one + at) != word(data, other + at):
            return False
        at += 8
    left = size - at
    return left == 0 or leading(word(data, one + at), left) == leading(word(data, other + at), left)
