"""A hash table from keys to the numbers of their entries.

It probes linearly and deletes without tombstones. The entries themselves are arrays of the estimator. The
estimator also keeps `places`, the slot of each entry; a deletion updates it for other keys that it moves
(Knuth, The Art of Computer Programming 3, 6.4, algorithm R).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.grouping.compiled import step
from sluice.grouping.hashing import mix
from sluice.runtime.arrays import Hashes, Int32s

#: Numbers of entries and slots.
Places = Int32s

NOWHERE = -1


class CounterTable(NamedTuple):
    """The table, by slot; shape (slots,), a power of two.

    keys: the slot's key, if it has one. entries: the number of the key's entry, or NOWHERE.
    """

    keys: Hashes
    entries: Places


def table(room: int) -> CounterTable:
    """An empty table for up to `room` entries, which fill at most half of it."""
    slots = 1 << (2 * room - 1).bit_length()
    return CounterTable(np.zeros(slots, np.uint64), np.full(slots, NOWHERE, np.int32))


@step
def _home(key: np.uint64, mask: int) -> int:
    return np.int64(mix(key, np.uint64(0))) & mask  # type: ignore[return-value]


@step
def find(table: CounterTable, key: np.uint64) -> int:
    """The slot that has the key, or else the empty one that it would get."""
    mask = len(table.keys) - 1
    slot = _home(key, mask)
    while table.entries[slot] != NOWHERE and table.keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


@step
def put(table: CounterTable, slot: int, key: np.uint64, entry: int, places: Places) -> None:
    """Put a key into the empty slot that `find` returned for it."""
    table.keys[slot], table.entries[slot] = key, entry
    places[entry] = slot


@step
def remove(table: CounterTable, entry: int, places: Places) -> None:
    """Empty an entry's slot, and move back later keys that would no longer be found."""
    mask = len(table.keys) - 1
    hole = slot = int(places[entry])
    places[entry] = NOWHERE
    while True:
        slot = (slot + 1) & mask
        if table.entries[slot] == NOWHERE:
            break
        if (slot - _home(table.keys[slot], mask)) & mask >= (slot - hole) & mask:
            put(table, hole, table.keys[slot], table.entries[slot], places)
            hole = slot
    table.entries[hole] = NOWHERE
