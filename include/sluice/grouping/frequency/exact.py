"""Exact counting, with an entry for each distinct key.

It is for reference and for streams with few keys. One tuple: O(1). Memory: 20 bytes a distinct key, and 24 to
48 in the hash table. A kernel cannot make room, so `with_room` does it before a batch.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.grouping.compiled import kernel, step
from sluice.grouping.frequency import Frequent
from sluice.grouping.frequency.decay import FOREVER, due, halved_down
from sluice.grouping.frequency.table import NOWHERE, CounterTable, Places, find, put, table
from sluice.runtime.arrays import Hashes, Ints


class ExactCounts(NamedTuple):
    """The counts, by entry: its key, count and slot in the table; shape (room,).

    The first `size[0]` entries are taken, in order of first occurrence.
    """

    table: CounterTable
    keys: Hashes
    counts: Ints
    slots: Places
    size: Ints
    total: Ints
    half_life: int


def exact(room: int, half_life: int = FOREVER) -> ExactCounts:
    """Empty counts with room for `room` distinct keys. half_life: in tuples (`decay`)."""
    if not 1 <= half_life <= FOREVER:
        raise ValueError(f"half_life: {half_life}; it must be 1 to {FOREVER:,} tuples")
    return ExactCounts(
        table=table(max(1, room)),
        keys=np.zeros(max(1, room), np.uint64),
        counts=np.zeros(max(1, room), np.int64),
        slots=np.zeros(max(1, room), np.int32),
        size=np.zeros(1, np.int64),
        total=np.zeros(1, np.int64),
        half_life=half_life,
    )


def with_room(state: ExactCounts, more: int) -> ExactCounts:
    """The same counts with room for `more` new keys.

    This is `state` itself, or a copy at least twice as large.
    """
    needed = int(state.size[0]) + more
    if needed <= len(state.keys):
        return state
    larger = exact(max(needed, 2 * len(state.keys)), state.half_life)
    _move(state, larger)
    return larger


@kernel
def _move(state: ExactCounts, larger: ExactCounts) -> None:
    for entry in range(state.size[0]):
        _enter(larger, find(larger.table, state.keys[entry]), state.keys[entry], state.counts[entry])
    larger.total[0] = state.total[0]


@step
def _enter(state: ExactCounts, slot: int, key: np.uint64, count: int) -> None:
    entry = state.size[0]
    put(state.table, slot, key, entry, state.slots)
    state.keys[entry], state.counts[entry] = key, count
    state.size[0] += 1


@step
def observe(state: ExactCounts, key: np.uint64) -> int:
    """Count a key and return its count. There must be room (`with_room`)."""
    if due(state.total[0], state.half_life):
        _halve(state)
    state.total[0] += 1
    slot = find(state.table, key)
    entry = state.table.entries[slot]
    if entry == NOWHERE:
        _enter(state, slot, key, 1)
        return 1
    state.counts[entry] += 1
    return state.counts[entry]  # type: ignore[no-any-return]


@kernel
def observe_all(state: ExactCounts, keys: Hashes) -> None:
    """Count the keys of a batch. There must be room for them (`with_room`)."""
    for key in keys:
        observe(state, key)


@step
def estimate(state: ExactCounts, key: np.uint64) -> int:
    """A key's count, without counting the key."""
    entry = state.table.entries[find(state.table, key)]
    return state.counts[entry] if entry != NOWHERE else 0


def error_bound(state: ExactCounts) -> int:
    """By how much a count may be too low: halving rounds it down, by less than one in all."""
    return 0 if state.half_life == FOREVER else 1


def frequent(state: ExactCounts, share: float) -> Frequent:
    """The keys whose count is at least `share` of the total, the most frequent first.

    0 <= share <= 1.
    """
    counts = state.counts[: state.size[0]]
    order = np.flatnonzero(counts >= share * state.total[0])
    order = order[np.argsort(-counts[order], kind="stable")]
    return Frequent(state.keys[order], counts[order], counts[order], counts[order] + error_bound(state))


@step
def _halve(state: ExactCounts) -> None:
    """Halve all counts (`decay`), and drop keys that are left with none."""
    size, state.size[0] = state.size[0], 0
    state.table.entries[:] = NOWHERE
    for entry in range(size):
        count, key = halved_down(state.counts[entry]), state.keys[entry]
        if count:
            _enter(state, find(state.table, key), key, count)
    state.total[0] = halved_down(state.total[0])
