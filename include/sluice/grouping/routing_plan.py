"""A plan: where each key goes until the next plan. It holds only what a source looks up.

Keys that are frequent enough to matter one by one are *listed*. A listed key has one or more workers, its
*parts*, and each part gets a share of its tuples. All other keys fall into *buckets* by their hash, and a
bucket has one worker. However many keys there are, the number of buckets is fixed, and at most W / grain keys
are listed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.grouping.base import Targets
from sluice.grouping.compiled import kernel, step
from sluice.grouping.frequency.table import Places
from sluice.grouping.hashing import worker_of
from sluice.grouping.summary import hash_of
from sluice.runtime.arrays import Bools, Floats, Hashes, Ints

#: Instead of the number of a listed key or of a worker. NONE: there is none. SPLIT: there are several.
NONE, SPLIT = -1, -2
#: 2**64 / golden ratio.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_RANGE = float(1 << 64)
_LAST = _RANGE - 2048  # the greatest double below it


class RoutingPlan(NamedTuple):
    """Arrays by listed key, by part, by unit and by worker.

    slots, numbers: a hash table, shape (a power of two,), of the listed keys' hashes and numbers; NONE in an
    empty slot.
    keys, weights: by listed key, the most frequent first: the key, and the tuples it is expected to have.
    first: the parts of listed key k are first[k] .. first[k + 1] - 1; shape (listed keys + 1,).
    parts, upto: by part, its worker, and where it ends in 0 .. 2**64 (the last one: just below). A part gets
    the same share of its key's tuples as it has of that range.
    guide: a key with n parts also divides the range into n equal cells; by cell, the part in which it begins.
    homes: by *unit*, its worker, or SPLIT. Units are the listed keys and, numbered after them, the buckets.
    loose: by unit, whether its tuples may go elsewhere once their worker has too much (`planned_loop`).
    shares: by worker, its share of all tuples; they add up to 1.
    expected: tuples of all sources in the batch to come; 0 before the first.
    """

    seed: np.uint64
    slots: Hashes
    numbers: Places
    keys: Hashes
    weights: Floats
    first: Ints
    parts: Targets
    upto: Hashes
    guide: Ints
    homes: Targets
    loose: Bools
    shares: Floats
    expected: float

    @property
    def workers(self) -> int:
        return len(self.shares)

    @property
    def units(self) -> int:
        return len(self.homes)

    def candidates(self, number: int) -> Targets:
        """The workers of a listed key."""
        return self.parts[self.first[number] : self.first[number + 1]]


def listing(keys: Hashes, seed: int) -> tuple[Hashes, Places]:
    """The slots and numbers of distinct keys.

    At most a quarter of the slots is taken, so other keys usually meet an empty one.
    """
    size = 1 << (4 * len(keys)).bit_length()
    slots, numbers = np.zeros(size, np.uint64), np.full(size, NONE, np.int32)
    _fill(slots, numbers, keys, np.uint64(seed))
    return slots, numbers


@kernel
def _fill(slots: Hashes, numbers: Places, keys: Hashes, seed: np.uint64) -> None:
    mask = len(slots) - 1
    for number in range(len(keys)):
        hashed = hash_of(keys[number], seed)
        slot = np.int64(hashed) & mask
        while numbers[slot] != NONE:
            slot = (slot + 1) & mask
        slots[slot], numbers[slot] = hashed, number


def ends(first: Ints, sizes: Floats) -> Hashes:
    """Where each part of a key ends in 0 .. 2**64, in proportion to size (`RoutingPlan.upto`)."""
    parts, reached = np.diff(first), np.cumsum(sizes)
    before = np.repeat(reached[first[:-1]] - sizes[first[:-1]], parts)
    whole = np.repeat(reached[first[1:] - 1], parts) - before
    return np.minimum((reached - before) / whole * _RANGE, _LAST).astype(np.uint64)


@kernel
def guide(first: Ints, upto: Hashes) -> Ints:
    """The part in which each of a key's cells begins (`RoutingPlan.guide`)."""
    found = np.empty(len(upto), np.int64)
    for number in range(len(first) - 1):
        part, cells = first[number], first[number + 1] - first[number]
        for cell in range(cells):
            # The first position that `worker_of` puts here: its high half is ceil(2**32 cell / cells).
            begin = np.uint64(((cell << 32) + cells - 1) // cells) << np.uint64(32)
            while part < first[number + 1] - 1 and upto[part] <= begin:
                part += 1
            found[first[number] + cell] = part
    return found


@step
def unit_of(plan: RoutingPlan, key: np.uint64) -> int:
    """The unit of a key.

    One hash names both its slot, by the low bits, and its bucket, by the high bits. The loop is the only
    branch, and it nearly always ends at once. A processor cannot predict whether a key is listed, and a wrong
    prediction costs more than computing a bucket that is not needed.
    """
    hashed = hash_of(key, plan.seed)
    mask, listed = len(plan.slots) - 1, len(plan.keys)
    slot = np.int64(hashed) & mask
    while (plan.numbers[slot] != NONE) & (plan.slots[slot] != hashed):
        slot = (slot + 1) & mask
    number: int = plan.numbers[slot]
    bucket = listed + worker_of(hashed, len(plan.homes) - listed)
    return number if number != NONE else bucket


@step
def following(position: np.uint64) -> np.uint64:
    """Where in 0 .. 2**64 a key's next tuple falls.

    The positions are the multiples of the golden ratio, modulo 1. Of any n in a row, every interval gets its
    share to within O(log n) tuples; random positions would miss it by O(sqrt(n)) (Kuipers and Niederreiter
    1974, "Uniform Distribution of Sequences").
    """
    return position + GOLDEN


@step
def part_at(plan: RoutingPlan, number: int, position: np.uint64) -> int:
    """The worker whose part of a listed key has this position.

    O(1) on average (Chen and Asau 1974).
    """
    first, after = plan.first[number], plan.first[number + 1]
    part = plan.guide[first + worker_of(position, after - first)]
    while part < after - 1 and position >= plan.upto[part]:
        part += 1
    return plan.parts[part]  # type: ignore[no-any-return]
