"""The exact sum of floats of each series: the same bytes for any order and any batches.

A plain sum of floats depends on the order of the additions, and where large floats cancel, what is left may
be nothing but rounding. Here every float is cut into digits of 32 bits on one scale that reaches from the
least float to 2^384. Digits are added as integers, and nothing is rounded before the result is asked for.
(This is the long accumulator of U. Kulisch, Computer Arithmetic and Validity, 2008, chapter 8, with only the
digits in use.)

A row's words (int64): the place of its lowest digit, then its digits from there upwards, each in
[-2^31, 2^31); the first and the last are not 0. A sum of 0 is the place 0 alone. Digit `p` counts for
2^(32 p - `_BIAS`).
"""

from __future__ import annotations

import math

import numpy as np

from sluice.runtime.arrays import Bools, Floats, Ints
from sluice.runtime.compiled import compiled

_BITS = 32
_MASK = (1 << _BITS) - 1
_HALF = 1 << (_BITS - 1)
#: Every float is a whole multiple of 2^-1074.
_BIAS = 34 * _BITS
#: Of a float's 64 bits: how many the mantissa has, and what is added to its exponent.
_MANTISSA = 52
_EXPONENT = 1075
#: Digits of a row: floats reach 2^384; their sum and its carries need two digits more.
_PLACES = 50


@compiled
def add_up(
    values: Floats, owners: Ints, data: Ints, bounds: Ints, groups: Ints, size: int
) -> tuple[Ints, Ints, bool]:
    """Add up floats below 2^384 and rows, by group; the sums are rows again.

    `owners`: the group of each float. `groups`: the group of each row. `data` and `bounds`: the words of the
    given rows. Returns words and their bounds; False: a row is damaged.
    """
    low, high = _PLACES, 0
    bits = values.view(np.int64)
    for value in bits:
        if value << 1:  # not 0, nor -0
            place = _exponent(value) >> 5
            low, high = min(low, place), max(high, place + 2)
    for row in range(len(groups)):
        if not _sound(data, bounds[row], bounds[row + 1]):
            return np.empty(0, np.int64), np.zeros(size + 1, np.int64), False
        length = bounds[row + 1] - bounds[row] - 1
        if length > 0:
            place = data[bounds[row]]
            low, high = min(low, place), max(high, place + length - 1)
    low = min(low, high)
    digits = np.zeros((size, high - low + 3), np.int64)
    there = np.zeros(size, np.bool_)
    for i in range(len(bits)):
        there[owners[i]] = True
        if bits[i] << 1:
            _add(digits[owners[i]], low, bits[i])
    for row in range(len(groups)):
        begin, end = bounds[row], bounds[row + 1]
        if begin < end:
            there[groups[row]] = True
            for at in range(begin + 1, end):
                digits[groups[row], data[begin] - low + at - begin - 1] += data[at]
    words, ends = _packed(digits, there, low)
    return words, ends, True


@compiled
def as_floats(data: Ints, bounds: Ints, integers: Ints) -> tuple[Floats, bool]:
    """Each row's sum plus its integer, as one float. False: a row is damaged.

    The float is at most one unit in the last place away from the exact sum.
    """
    found = np.empty(len(integers), np.float64)
    digits = np.empty(_PLACES + 2, np.int64)
    for row in range(len(integers)):
        digits[:] = 0
        begin, end = bounds[row], bounds[row + 1]
        if not _sound(data, begin, end):
            return found, False
        for at in range(begin + 1, end):
            digits[data[begin] + at - begin - 1] = data[at]
        one = _BIAS // _BITS
        digits[one] += integers[row] & _MASK
        digits[one + 1] += integers[row] >> _BITS
        _carry(digits)
        total = 0.0
        for place in range(len(digits)):
            if digits[place]:
                total += math.ldexp(float(digits[place]), _BITS * place - _BIAS)
        found[row] = total
    return found, True


@compiled
def _sound(data: Ints, begin: int, end: int) -> bool:
    """Whether the digits of a row lie on the scale; no other code here checks indexes."""
    return end - begin <= 1 or (data[begin] >= 0 and data[begin] + end - begin - 1 <= _PLACES)


@compiled
def _exponent(bits: int) -> int:
    """The place of a float's last bit above 2^-`_BIAS`; `bits`: the float as an integer."""
    return max((bits >> _MANTISSA) & 0x7FF, 1) - _EXPONENT + _BIAS


@compiled
def _add(digits: Ints, low: int, bits: int) -> None:
    exponent = _exponent(bits)
    mantissa = bits & ((1 << _MANTISSA) - 1)
    if (bits >> _MANTISSA) & 0x7FF:
        mantissa |= 1 << _MANTISSA
    if bits < 0:
        mantissa = -mantissa
    at, shift = (exponent >> 5) - low, exponent & (_BITS - 1)
    # mantissa << shift has up to 84 bits: its low half first, in 64 bits without a sign.
    lower = np.uint64(mantissa & _MASK) << np.uint64(shift)
    upper = ((mantissa >> _BITS) << shift) + np.int64(lower >> np.uint64(_BITS))
    digits[at] += np.int64(lower & np.uint64(_MASK))
    digits[at + 1] += upper & _MASK
    digits[at + 2] += upper >> _BITS


@compiled
def _carry(digits: Ints) -> None:
    """Bring every digit into [-2^31, 2^31), and carry the rest into the next digit.

    So there is only one way to write a sum.
    """
    over = np.int64(0)
    for at in range(len(digits)):
        value = digits[at] + over
        digits[at] = ((value + _HALF) & _MASK) - _HALF
        over = (value - digits[at]) >> _BITS


@compiled
def _packed(digits: Ints, there: Bools, low: int) -> tuple[Ints, Ints]:
    """Digits by group as words and their bounds; a group that is not `there` gets no words."""
    size, width = digits.shape
    firsts, ends = np.zeros(size, np.int64), np.zeros(size + 1, np.int64)
    lengths = np.zeros(size, np.int64)
    for group in range(size):
        own = digits[group]
        _carry(own)
        first, last = 0, width
        while first < width and own[first] == 0:
            first += 1
        while last > first and own[last - 1] == 0:
            last -= 1
        firsts[group], lengths[group] = first, last - first
        ends[group + 1] = ends[group] + (1 + last - first if there[group] else 0)
    words = np.empty(ends[size], np.int64)
    for group in range(size):
        if there[group]:
            at, length = ends[group], lengths[group]
            words[at] = low + firsts[group] if length else 0
            words[at + 1 : at + 1 + length] = digits[group, firsts[group] : firsts[group] + length]
    return words, ends
