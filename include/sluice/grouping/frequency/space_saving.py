"""Space-Saving (Metwally et al. 2005): a key without a counter takes over the least one.

The number of counters is fixed. An estimate is never too low. It is too high by at most the least count,
which is at most total / counters. Every key that is more frequent than that has a counter. All counts add up
to the number of tuples.

The counters are in ascending order of count, and counters of equal count form a *block*. Before a count grows
by one, its counter trades places with the last one of its block, so the array stays in order. This is O(1),
as with the lists of the paper, but needs no pointers, and the frequent keys are adjacent at the end. Of
several least counters the first in this order is taken over. One tuple: O(1). Memory: 40 bytes a counter, and
24 to 48 in its hash table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.grouping.compiled import kernel, step
from sluice.grouping.frequency import Frequent
from sluice.grouping.frequency.decay import FOREVER, due, halved_down, halved_up
from sluice.grouping.frequency.table import NOWHERE, CounterTable, Places, find, put, remove, table
from sluice.runtime.arrays import Hashes, Ints

MOST_COUNTERS = 1 << 26


class SpaceSaving(NamedTuple):
    """The summary, by counter: its key, count, error, slot in the table and block.

    Counters are in ascending order of count; shape (counters,). A counter that never had a key has count 0
    and no slot. errors: by how much the count may be too high. lasts: by block, its last counter. spare: the
    `spares[0]` numbers of blocks that are not in use.
    """

    table: CounterTable
    keys: Hashes
    counts: Ints
    errors: Ints
    slots: Places
    blocks: Places
    lasts: Places
    spare: Places
    spares: Ints
    total: Ints
    half_life: int


def space_saving(counters: int, half_life: int = FOREVER) -> SpaceSaving:
    """An empty summary with error at most 1/counters of the total.

    half_life: in tuples (`decay`).
    """
    if not 1 <= counters <= MOST_COUNTERS:
        raise ValueError(f"counters: {counters}; there must be 1 to {MOST_COUNTERS:,}")
    if not 1 <= half_life <= FOREVER:
        raise ValueError(f"half_life: {half_life}; it must be 1 to {FOREVER:,} tuples")
    state = SpaceSaving(
        table=table(counters),
        keys=np.zeros(counters, np.uint64),
        counts=np.zeros(counters, np.int64),
        errors=np.zeros(counters, np.int64),
        slots=np.full(counters, NOWHERE, np.int32),
        blocks=np.zeros(counters, np.int32),
        lasts=np.zeros(counters, np.int32),
        spare=np.zeros(counters, np.int32),
        spares=np.zeros(1, np.int64),
        total=np.zeros(1, np.int64),
        half_life=half_life,
    )
    clear(state)
    return state


@kernel
def clear(state: SpaceSaving) -> None:
    """Forget everything."""
    state.table.entries[:] = NOWHERE
    state.slots[:] = NOWHERE
    state.counts[:] = 0
    state.errors[:] = 0
    state.total[0] = 0
    _form_blocks(state)


@step
def observe(state: SpaceSaving, key: np.uint64) -> int:
    """Count a key and return its estimate, which is at least its true count."""
    if due(state.total[0], state.half_life):
        _halve(state)
    state.total[0] += 1
    slot = find(state.table, key)
    counter = int(state.table.entries[slot])
    if counter == NOWHERE:
        counter = 0
        _take_over_least(state, slot, key)
    return state.counts[_grow(state, counter)]  # type: ignore[no-any-return]


@kernel
def observe_all(state: SpaceSaving, keys: Hashes) -> None:
    """Count the keys of a batch."""
    for key in keys:
        observe(state, key)


@step
def estimate(state: SpaceSaving, key: np.uint64) -> int:
    """A key's estimate, without counting the key; 0 if it has no counter."""
    counter = state.table.entries[find(state.table, key)]
    return state.counts[counter] if counter != NOWHERE else 0


def error_bound(state: SpaceSaving) -> int:
    """By how much an estimate may be too high, and how frequent a key without a counter may be."""
    return int(state.counts[0])


def frequent(state: SpaceSaving, share: float) -> Frequent:
    """The keys whose estimate is at least `share` of the total, the most frequent first.

    0 <= share <= 1.
    """
    first = int(np.searchsorted(state.counts, max(1, share * state.total[0])))
    counts, errors = state.counts[first:][::-1].copy(), state.errors[first:][::-1]
    return Frequent(state.keys[first:][::-1].copy(), counts, counts - errors, counts)


@step
def _take_over_least(state: SpaceSaving, slot: int, key: np.uint64) -> None:
    """Give the first counter to a key. slot: the key's slot in the table."""
    if state.slots[0] != NOWHERE:
        remove(state.table, 0, state.slots)
        slot = find(state.table, key)  # the removal may have moved it
    put(state.table, slot, key, 0, state.slots)
    state.keys[0], state.errors[0] = key, state.counts[0]


@step
def _grow(state: SpaceSaving, counter: int) -> int:
    """Add one to a count and return where its counter is now."""
    block = state.blocks[counter]
    last = int(state.lasts[block])
    if counter != last:
        _swap(state, counter, last)
    state.counts[last] += 1
    alone = last == 0 or state.blocks[last - 1] != block
    if not alone:
        state.lasts[block] = last - 1
    if last + 1 < len(state.counts) and state.counts[last + 1] == state.counts[last]:
        state.blocks[last] = state.blocks[last + 1]
        if alone:
            state.spare[state.spares[0]] = block
            state.spares[0] += 1
    elif not alone:
        state.spares[0] -= 1
        new = state.spare[state.spares[0]]
        state.blocks[last], state.lasts[new] = new, last
    return last


@step
def _swap(state: SpaceSaving, one: int, other: int) -> None:
    """Two counters of a block trade places."""
    keys, errors, slots = state.keys, state.errors, state.slots
    keys[one], keys[other] = keys[other], keys[one]
    errors[one], errors[other] = errors[other], errors[one]
    slots[one], slots[other] = slots[other], slots[one]
    if slots[one] != NOWHERE:
        state.table.entries[slots[one]] = one
    if slots[other] != NOWHERE:
        state.table.entries[slots[other]] = other


@step
def _halve(state: SpaceSaving) -> None:
    """Halve all counts (`decay`).

    An estimate is an upper bound and is rounded up; what is certain of it is rounded down.
    """
    for i in range(len(state.counts)):
        certain = halved_down(state.counts[i] - state.errors[i])
        state.counts[i] = halved_up(state.counts[i])
        state.errors[i] = state.counts[i] - certain
    state.total[0] = halved_down(state.total[0])
    _form_blocks(state)


@step
def _form_blocks(state: SpaceSaving) -> None:
    """Number the blocks of equal counts; the counters are already in order."""
    block = 0
    for i in range(len(state.counts)):
        if i and state.counts[i] != state.counts[i - 1]:
            block += 1
        state.blocks[i] = block
        state.lasts[block] = i
    state.spares[0] = 0
    for unused in range(block + 1, len(state.counts)):
        state.spare[state.spares[0]] = unused
        state.spares[0] += 1
