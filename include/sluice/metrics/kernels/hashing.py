"""XXH64 of every string of an Arrow array: the same 64 bits on every machine, for ever.

Source: the algorithm's description, github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md. Seed 0.
"""

from __future__ import annotations

import numpy as np

from sluice.runtime.arrays import Bytes, Hashes, Ints
from sluice.runtime.compiled import compiled

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)
_STRIPE = 32


@compiled
def _rotate(x: np.uint64, r: int) -> np.uint64:
    return np.uint64((x << np.uint64(r)) | (x >> np.uint64(64 - r)))


@compiled
def _word(data: Bytes, at: int, size: int) -> np.uint64:
    """`size` bytes, little-endian."""
    found = np.uint64(0)
    for i in range(size):
        found |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return found


@compiled
def _round(lane: np.uint64, word: np.uint64) -> np.uint64:
    return _rotate(lane + word * _P2, 31) * _P1


@compiled
def xxh64(data: Bytes, start: int, end: int) -> np.uint64:
    """The hash of data[start:end]."""
    at = start
    if end - start >= _STRIPE:
        a, b, c, d = _P1 + _P2, _P2, np.uint64(0), np.uint64(0) - _P1
        while at + _STRIPE <= end:
            a = _round(a, _word(data, at, 8))
            b = _round(b, _word(data, at + 8, 8))
            c = _round(c, _word(data, at + 16, 8))
            d = _round(d, _word(data, at + 24, 8))
            at += _STRIPE
        found = _rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)
        found = (found ^ _round(np.uint64(0), a)) * _P1 + _P4
        found = (found ^ _round(np.uint64(0), b)) * _P1 + _P4
        found = (found ^ _round(np.uint64(0), c)) * _P1 + _P4
        found = (found ^ _round(np.uint64(0), d)) * _P1 + _P4
    else:
        found = _P5
    found += np.uint64(end - start)
    while at + 8 <= end:
        found = _rotate(found ^ _round(np.uint64(0), _word(data, at, 8)), 27) * _P1 + _P4
        at += 8
    if at + 4 <= end:
        found = _rotate(found ^ (_word(data, at, 4) * _P1), 23) * _P2 + _P3
        at += 4
    while at < end:
        found = _rotate(found ^ (np.uint64(data[at]) * _P5), 11) * _P1
        at += 1
    found = (found ^ (found >> np.uint64(33))) * _P2
    found = (found ^ (found >> np.uint64(29))) * _P3
    return np.uint64(found ^ (found >> np.uint64(32)))


@compiled
def hash_all(data: Bytes, bounds: Ints) -> Hashes:
    """The hash of each data[bounds[i]:bounds[i + 1]]."""
    found = np.empty(len(bounds) - 1, np.uint64)
    for i in range(len(found)):
        found[i] = xxh64(data, bounds[i], bounds[i + 1])
    return found
