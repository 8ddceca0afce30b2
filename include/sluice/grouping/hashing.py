"""Hashes of keys, and the workers that a hash names.

A key comes in as an unsigned 64-bit hash, which is made once a batch. Its further hashes come from mixing it
with a seed (the finalizer of splitmix64, Steele et al. 2014, "Fast splittable pseudorandom number
generators"), so two choices of a key are independent. The high half of a product maps a hash to one of W
workers (Lemire 2019, "Fast random integer generation in an interval"). This needs no division, has no modulo
bias, and takes no absolute value that could stay negative.
"""

from __future__ import annotations

import numba as nb
import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_30, _27, _31, _32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


@nb.njit(nb.uint64(nb.uint64, nb.uint64), cache=True, inline="never")
def mix(key: np.uint64, seed: np.uint64) -> np.uint64:
    """The hash number `seed` of a key."""
    z = key + _GOLDEN * (seed + np.uint64(1))
    z = (z ^ (z >> _30)) * _FIRST
    z = (z ^ (z >> _27)) * _SECOND
    return z ^ (z >> _31)


@nb.njit(nb.int64(nb.uint64, nb.int64), cache=True)
def worker_of(hashed: np.uint64, workers: int) -> int:
    """The worker, 0 .. workers - 1, that a hash names. workers < 2**31."""
    return np.int64(((hashed >> _32) * np.uint64(workers)) >> _32)  # type: ignore[return-value]


@nb.njit(cache=True)
def second_worker(key: np.uint64, seed: np.uint64, first: int, workers: int) -> int:
    """A second worker of a key, never the first one (unless there is no other)."""
    if workers == 1:
        return first
    other = worker_of(mix(key, seed), workers - 1)
    return other if other < first else other + 1
