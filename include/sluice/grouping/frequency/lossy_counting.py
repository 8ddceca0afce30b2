"""Lossy Counting (Manku and Motwani 2002): drops rare keys as the stream goes by.

The stream is cut into buckets of ceil(1/epsilon) tuples. A key without an entry gets one with count 1. Its
delta is the number of full buckets, which is how often the key may have been counted and dropped before. At
the end of bucket b every entry with count + delta <= b is dropped. An estimate is never too high. It is too
low by at most its delta, which is less than epsilon * total. Selecting by count >= (s - epsilon) * total
misses no key of share s, and finds no key below s - epsilon.

One tuple: O(1), including the sweep at each bucket's end. Memory: room for the paper's bound of
1/epsilon * log(epsilon * total) entries at the largest total before a halving (`decay`), and for one bucket;
28 bytes an entry, and 24 to 48 in the hash table. Pages that are never touched cost no memory.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sluice.grouping.compiled import kernel, step
from sluice.grouping.frequency import Frequent
from sluice.grouping.frequency.decay import FOREVER, due, halved_down, halved_up
from sluice.grouping.frequency.table import NOWHERE, CounterTable, Places, find, put, remove, table
from sluice.runtime.arrays import Hashes, Ints

LEAST_EPSILON = 1e-6


class LossyCounting(NamedTuple):
    """The summary, by entry: its key, count, delta and slot in the table; shape (room,).

    The first `size[0]` entries are taken, in no order. bucket: the current bucket's number, from 1. width:
    tuples a bucket. half_life: in tuples, whole buckets.
    """

    table: CounterTable
    keys: Hashes
    counts: Ints
    deltas: Ints
    slots: Places
    size: Ints
    bucket: Ints
    total: Ints
    width: int
    half_life: int


def lossy_counting(epsilon: float, half_life: int = FOREVER) -> LossyCounting:
    """An empty summary with error at most `epsilon` of the total.

    half_life: in tuples, rounded up to whole buckets.
    """
    if not LEAST_EPSILON <= epsilon <= 1:
        raise ValueError(f"epsilon: {epsilon}; it must be {LEAST_EPSILON} to 1")
    if not 1 <= half_life <= FOREVER:
        raise ValueError(f"half_life: {half_life}; it must be 1 to {FOREVER:,} tuples")
    width = math.ceil(1 / epsilon)
    buckets = -(-half_life // width)
    room = width + math.ceil(width * math.log(max(math.e, 2 * buckets)))
    return LossyCounting(
        table=table(room),
        keys=np.zeros(room, np.uint64),
        counts=np.zeros(room, np.int64),
        deltas=np.zeros(room, np.int64),
        slots=np.zeros(room, np.int32),
        size=np.zeros(1, np.int64),
        bucket=np.ones(1, np.int64),
        total=np.zeros(1, np.int64),
        width=width,
        half_life=buckets * width,
    )


@kernel
def clear(state: LossyCounting) -> None:
    """Forget everything."""
    state.table.entries[:] = NOWHERE
    state.size[0] = state.total[0] = 0
    state.bucket[0] = 1


@step
def observe(state: LossyCounting, key: np.uint64) -> int:
    """Count a key and return its estimate, which is at most its true count."""
    slot = find(state.table, key)
    entry = int(state.table.entries[slot])
    if entry != NOWHERE:
        state.counts[entry] += 1
    else:
        entry = state.size[0]
        if entry == len(state.keys):
            # Halving rounds, so there may be a few entries more than the paper's bound. A key that finds no
            # room is dropped at once, as it would be at the bucket's end.
            _end_of_tuple(state)
            return 0
        put(state.table, slot, key, entry, state.slots)
        state.keys[entry], state.counts[entry], state.deltas[entry] = key, 1, state.bucket[0] - 1
        state.size[0] += 1
    count = state.counts[entry]
    _end_of_tuple(state)
    return count  # type: ignore[no-any-return]


@kernel
def observe_all(state: LossyCounting, keys: Hashes) -> None:
    """Count the keys of a batch."""
    for key in keys:
        observe(state, key)


@step
def estimate(state: LossyCounting, key: np.uint64) -> int:
    """A key's estimate, without counting the key; 0 if it has no entry."""
    entry = state.table.entries[find(state.table, key)]
    return state.counts[entry] if entry != NOWHERE else 0


def error_bound(state: LossyCounting) -> int:
    """By how much an estimate may be too low, and how frequent a key without an entry may be."""
    return int(state.bucket[0]) - 1


def frequent(state: LossyCounting, share: float) -> Frequent:
    """The keys whose estimate is at least `share` of the total, the most frequent first.

    0 <= share <= 1. To get all keys that truly are that frequent, ask for share - epsilon.
    """
    counts = state.counts[: state.size[0]]
    order = np.flatnonzero(counts >= share * state.total[0])
    order = order[np.argsort(-counts[order], kind="stable")]
    return Frequent(
        state.keys[order], counts[order], counts[order], counts[order] + state.deltas[: len(counts)][order]
    )


@step
def _end_of_tuple(state: LossyCounting) -> None:
    state.total[0] += 1
    if state.total[0] == state.bucket[0] * state.width:
        _prune(state)
        if due(state.total[0], state.half_life):
            _halve(state)
        state.bucket[0] += 1


@step
def _prune(state: LossyCounting) -> None:
    """Drop the entries whose count + delta is at most one tuple a bucket."""
    entry = 0
    while entry < state.size[0]:
        if state.counts[entry] + state.deltas[entry] > state.bucket[0]:
            entry += 1
            continue
        remove(state.table, entry, state.slots)
        state.size[0] -= 1
        last = state.size[0]
        if entry != last:
            state.keys[entry], state.slots[entry] = state.keys[last], state.slots[last]
            state.counts[entry], state.deltas[entry] = state.counts[last], state.deltas[last]
            state.table.entries[state.slots[entry]] = entry


@step
def _halve(state: LossyCounting) -> None:
    """Halve all counts, and the number of buckets (`decay`).

    An estimate is a lower bound and is rounded down; count + delta is an upper bound and is rounded up.
    """
    for entry in range(state.size[0]):
        most = halved_up(state.counts[entry] + state.deltas[entry])
        state.counts[entry] = halved_down(state.counts[entry])
        state.deltas[entry] = most - state.counts[entry]
    state.bucket[0] = halved_down(state.bucket[0])
    state.total[0] = state.bucket[0] * state.width
    _prune(state)
