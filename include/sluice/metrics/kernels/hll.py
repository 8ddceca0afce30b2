"""The set of hashes of each series: the hashes while they are few, then HyperLogLog.

A row's bytes: at most `EXACT` hashes, 8 bytes each, in ascending order; or `REGISTERS` bytes. One more byte,
0, follows the registers, so that the length tells the two apart. Which of the two a row is depends only on
its set, and so do the registers: any split into batches gives the same bytes.
"""

from __future__ import annotations

import numpy as np

from sluice.runtime.arrays import Bytes, Floats, Hashes, Ints
from sluice.runtime.compiled import compiled

#: 8 KiB; the registers are half of that, so a series that outgrows exactness becomes smaller.
EXACT = 1024
#: 2^12 registers: the standard error is 1.04 / 2^6 = 1.6 %.
PRECISION = 12
REGISTERS = 1 << PRECISION
DENSE = REGISTERS + 1
#: The longest run of zeros in the 52 bits that do not choose the register, plus one.
_RANKS = 64 - PRECISION + 1


@compiled
def _register(registers: Bytes, start: int, hashed: np.uint64) -> None:
    at = start + np.int64(hashed >> np.uint64(64 - PRECISION))
    rest = hashed << np.uint64(PRECISION)
    rank = 1
    while rank < _RANKS and not (rest >> np.uint64(63)):
        rest <<= np.uint64(1)
        rank += 1
    registers[at] = max(registers[at], rank)


@compiled
def _read(data: Bytes, at: int) -> np.uint64:
    found = np.uint64(0)
    for i in range(8):
        found |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return found


@compiled
def _write(data: Bytes, at: int, hashed: np.uint64) -> None:
    for i in range(8):
        data[at + i] = np.uint8((hashed >> np.uint64(8 * i)) & np.uint64(0xFF))


@compiled
def add(hashes: Hashes, codes: Ints, bounds: Ints) -> tuple[Bytes, Ints]:
    """Distinct codes by group (`rows.pairs`) to states: their bytes and bounds.

    `hashes`: the hash of each code.
    """
    size = len(bounds) - 1
    ends = np.zeros(size + 1, np.int64)
    for group in range(size):
        count = bounds[group + 1] - bounds[group]
        ends[group + 1] = ends[group] + (8 * count if count <= EXACT else DENSE)
    data = np.zeros(ends[size], np.uint8)
    for group in range(size):
        own, at = codes[bounds[group] : bounds[group + 1]], ends[group]
        if len(own) > EXACT:
            for code in own:
                _register(data, at, hashes[code])
        else:
            few = hashes[own]
            few.sort()
            for hashed in few:
                _write(data, at, hashed)
                at += 8
    return data, ends


@compiled
def merge(data: Bytes, bounds: Ints, order: Ints, groups: Ints) -> tuple[Bytes, Ints, bool]:
    """Merge rows of states by group. False: a row is damaged.

    `order` and `groups` (bounds) are those of `rows.by_group`.
    """
    size = len(groups) - 1
    most = np.zeros(size + 1, np.int64)  # the room that each group may need
    for group in range(size):
        total = 0
        for i in range(groups[group], groups[group + 1]):
            length = bounds[order[i] + 1] - bounds[order[i]]
            if length != DENSE and (length % 8 or length > 8 * EXACT):
                return np.empty(0, np.uint8), most, False
            total += length
        most[group + 1] = most[group] + min(total, 8 * EXACT)
    merged, ends = np.zeros(most[size], np.uint8), np.zeros(size + 1, np.int64)
    one, two = np.empty(EXACT, np.uint64), np.empty(EXACT, np.uint64)
    registers = np.zeros(REGISTERS, np.uint8)
    for group in range(size):
        count, dense = 0, False
        for i in range(groups[group], groups[group + 1]):
            start, end = bounds[order[i]], bounds[order[i] + 1]
            if dense:
                _into(registers, data, start, end)
                continue
            if end - start != DENSE:
                found = _union(one, count, data, start, end, two)
                if found >= 0:
                    one, two, count = two, one, found
                    continue
            dense = True
            registers[:] = 0
            for j in range(count):
                _register(registers, 0, one[j])
            _into(registers, data, start, end)
        at = ends[group]
        if dense:
            merged[at : at + REGISTERS] = registers
            merged[at + REGISTERS] = 0
            ends[group + 1] = at + DENSE
        else:
            for j in range(count):
                _write(merged, at + 8 * j, one[j])
            ends[group + 1] = at + 8 * count
    return merged[: ends[size]].copy(), ends, True


@compiled
def _into(registers: Bytes, data: Bytes, start: int, end: int) -> None:
    """Add one row's set to the registers."""
    if end - start == DENSE:
        for i in range(REGISTERS):
            registers[i] = max(registers[i], data[start + i])
    else:
        for at in range(start, end, 8):
            _register(registers, 0, _read(data, at))


@compiled
def _union(one: Hashes, count: int, data: Bytes, start: int, end: int, out: Hashes) -> int:
    """Write the union of one[:count] and a row's hashes, both ascending, to `out`.

    Returns its size; -1 if that is over `EXACT`.
    """
    i, at, found = 0, start, 0
    while i < count or at < end:
        if found == EXACT:
            return -1
        if at == end:
            out[found] = one[i]
            i += 1
        else:
            other = _read(data, at)
            if i == count or other < one[i]:
                out[found] = other
                at += 8
            else:
                at += 8 * (other == one[i])
                out[found] = one[i]
                i += 1
        found += 1
    return found


@compiled
def histograms(data: Bytes, starts: Ints) -> Ints:
    """For each row of registers, how many registers have the rank 0, 1, ... 53."""
    found = np.zeros((len(starts), _RANKS + 1), np.int64)
    for row in range(len(starts)):
        for i in range(REGISTERS):
            found[row, min(data[starts[row] + i], _RANKS)] += 1
    return found


def estimate(ranks: Ints) -> Floats:
    """The number of distinct hashes, from `histograms`, by Ertl's estimator.

    It has no bias at any size. Source: O. Ertl, New cardinality estimation algorithms for HyperLogLog
    sketches, 2017, algorithm 6.
    """
    counts = ranks.astype(np.float64)
    z = REGISTERS * _tau(1.0 - counts[:, -1] / REGISTERS)
    for rank in range(_RANKS - 1, 0, -1):
        z = 0.5 * (z + counts[:, rank])
    z += REGISTERS * _sigma(counts[:, 0] / REGISTERS)
    return np.asarray(REGISTERS * REGISTERS / (2.0 * np.log(2.0)) / z)


def _sigma(x: Floats) -> Floats:
    x, y, total = x.copy(), np.ones_like(x), x.copy()
    while True:
        x = x * x
        before = total.copy()
        total = total + x * y
        y = y + y
        if (total == before).all() or np.isinf(total).any():
            return total


def _tau(x: Floats) -> Floats:
    x, y, total = x.copy(), np.ones_like(x), 1.0 - x
    edge = (x == 0.0) | (x == 1.0)
    while True:
        x = np.sqrt(x)
        before = total.copy()
        y = 0.5 * y
        total = total - (1.0 - x) ** 2 * y
        if (edge | (total == before)).all():
            return np.where(edge, 0.0, total / 3.0)
