"""Which workers hold state for which keys: a set of pairs that grows as they are seen."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.grouping.base import Targets
from sluice.grouping.compiled import kernel
from sluice.grouping.hashing import mix
from sluice.runtime.arrays import Hashes, Ints

_SMALLEST = 1 << 12
_GROWTH = 4
_FREE = -1


class _Table(NamedTuple):
    keys: Hashes  # by slot
    targets: Targets  # by slot; _FREE where there is no pair
    counts: Ints  # pairs by worker

    @classmethod
    def empty(cls, slots: int, workers: int) -> _Table:
        return cls(np.zeros(slots, np.uint64), np.full(slots, _FREE, np.int32), np.zeros(workers, np.int64))


class Pairs:
    """Distinct pairs of key and worker, counted by worker. Open addressing, at most half full.

    Memory: 12 bytes a slot, up to 8 slots a pair.
    """

    def __init__(self, workers: int) -> None:
        self._table = _Table.empty(_SMALLEST, workers)

    @property
    def by_worker(self) -> Ints:
        """How many keys each worker holds; shape (workers,)."""
        return self._table.counts.copy()

    def __len__(self) -> int:
        return int(self._table.counts.sum())

    def add(self, keys: Hashes, targets: Targets) -> None:
        """Note that each tuple's key has state at its target from now on."""
        done = 0
        while (done := _add(keys, targets, done, self._table)) < len(keys):
            old = self._table
            held = old.targets != _FREE
            self._table = _Table.empty(len(old.targets) * _GROWTH, len(old.counts))
            _add(old.keys[held], old.targets[held], 0, self._table)


@kernel
def _add(keys: Hashes, targets: Targets, start: int, table: _Table) -> int:
    """Add pairs from `start` on; returns where the table got half full, else len(keys)."""
    mask = np.uint64(len(table.targets) - 1)
    room = len(table.targets) // 2 - table.counts.sum()
    for i in range(start, len(keys)):
        key, target = keys[i], targets[i]
        slot = mix(key, np.uint64(target)) & mask
        while table.targets[slot] != _FREE and (table.targets[slot] != target or table.keys[slot] != key):
            slot = (slot + np.uint64(1)) & mask
        if table.targets[slot] == _FREE:
            if room == 0:
                return i
            table.keys[slot], table.targets[slot] = key, target
            table.counts[target] += 1
            room -= 1
    return len(keys)
