"""Partial aggregates by key, of any size: a count, a sum, and a sketch in the other bytes.

They are NumPy records, one per key, and travel as their bytes. The sketch is as expensive to keep, send and
merge as a HyperLogLog with as many registers. It only has to give the same in any order of merging.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from sluice.runtime.arrays import Hashes

States = npt.NDArray[np.void]

COUNTERS = 16  # bytes: a count and a sum
PAYLOAD_BYTES = 8 << 20

_SUMMED = np.uint64(48)  # sums use a value's upper 16 bits, so they are exact in a float
_RANK = np.uint64(40)


def record(size: int) -> np.dtype[np.void]:
    """A key and its state of `size` bytes, at least COUNTERS."""
    fields: list[Any] = [
        ("key", np.uint64),
        ("count", np.int64),
        ("sum", np.int64),
        ("places", np.uint8, (size - COUNTERS,)),
    ]
    return np.dtype(fields)


def aggregate(keys: Hashes, values: Hashes, size: int) -> States:
    """The state of each distinct key, in ascending order. values: 64 random bits a tuple.

    A tuple raises one place of its key's sketch to a byte of its value.
    """
    distinct, codes, counts = np.unique(keys, return_inverse=True, return_counts=True)
    states = np.zeros(len(distinct), record(size))
    states["key"], states["count"] = distinct, counts
    states["sum"] = np.bincount(codes, values >> _SUMMED, len(distinct))
    if size > COUNTERS:
        places = (values % np.uint64(size - COUNTERS)).astype(np.intp)
        ranks = (values >> _RANK).astype(np.uint8)
        np.maximum.at(states["places"], (codes, places), ranks)
    return states


def merge(states: States) -> States:
    """The second stage: merge partial states in any order into one per key, in ascending order."""
    order = np.argsort(states["key"], kind="stable")
    keys = states["key"][order]
    first = np.flatnonzero(np.diff(keys, prepend=~keys[:1]))
    replicas = np.diff(first, append=len(keys))
    merged = states[order[first]]
    # Row by row, because `reduceat` goes through a table of sketches column by column.
    for nth in range(1, replicas.max(initial=0)):
        more = np.flatnonzero(replicas > nth)
        other = states[order[first[more] + nth]]
        merged["count"][more] += other["count"]
        merged["sum"][more] += other["sum"]
        if merged["places"].size:
            merged["places"][more] = np.maximum(merged["places"][more], other["places"])
    return merged


def payloads(states: States) -> Iterator[bytes]:
    """The states' bytes in pieces of about 8 MiB; one empty piece if there are no states."""
    rows = max(1, PAYLOAD_BYTES // states.itemsize)
    for start in range(0, max(1, len(states)), rows):
        yield states[start : start + rows].tobytes()


def from_payloads(pieces: Iterable[Any], size: int) -> States:
    """All states of these pieces, not merged. pieces: bytes or buffers."""
    return np.frombuffer(b"".join(pieces), record(size))


def same(one: States, other: States) -> bool:
    """Whether all keys and states are equal, byte by byte."""
    return one.dtype == other.dtype and one.tobytes() == other.tobytes()
