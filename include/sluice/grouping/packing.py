"""Packing pieces of a plan onto workers so that all finish together, with few replicas.

Pieces are packed the largest first, each onto the worker that would finish first with it. This is LPT,
longest processing time (Graham 1969, "Bounds on multiprocessing timing anomalies"; for workers of unequal
speed Gonzalez, Ibarra and Sahni 1977, "Bounds for LPT schedules on uniform processors").
"""

from __future__ import annotations

import heapq

import numpy as np

from sluice.grouping.compiled import kernel, step
from sluice.runtime.arrays import Floats, Ints

#: The part of a worker's share by which a key may overfill it before the key is split. A split costs a
#: replica, and this is less than chance adds to any worker with fewer than 10,000 tuples.
OVERFILL = 0.01


@step
def _first_through(load: Floats, shares: Floats, weight: float) -> int:
    """The worker that would finish first with this weight added; of equal ones the first."""
    best, least = 0, np.inf
    for worker in range(len(load)):
        through = (load[worker] + weight) / shares[worker]
        if through < least:
            best, least = worker, through
    return best


@kernel
def pack_keys(weights: Floats, shares: Floats, total: float, load: Floats) -> tuple[Ints, Ints, Floats]:
    """Pack keys and split those that fit into no worker; each piece's key, worker and weight.

    A key that is split fills the worker with the most room left, and its rest is a piece like all others. A
    split fills a worker, so there are at most as many splits as workers. With equal workers a key of n to
    n + 1 shares has n + 1 pieces while there are empty workers, because with fewer it would overfill one.

    shares: by worker, of the `total` that will be packed. load: by worker, added to. O(pieces * workers).
    """
    most = len(weights) + len(shares)
    keys, workers, sizes = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.float64)
    heap = [(-weights[key], key) for key in range(len(weights))]
    heapq.heapify(heap)
    room = shares * total - load
    pieces = 0
    while heap:
        negative, key = heapq.heappop(heap)
        size = -negative
        worker = _first_through(load, shares, size)
        if size - room[worker] > OVERFILL * shares[worker] * total:
            roomiest = int(np.argmax(room))
            if 0 < room[roomiest] < size:
                worker = roomiest
                heapq.heappush(heap, (room[worker] - size, key))
                size = room[worker]
        load[worker] += size
        room[worker] -= size
        keys[pieces], workers[pieces], sizes[pieces] = key, worker, size
        pieces += 1
    return keys[:pieces], workers[:pieces], sizes[:pieces]


@kernel
def pack_whole(weights: Floats, shares: Floats, load: Floats) -> Ints:
    """Pack pieces that cannot be split: a worker for each weight. O(weights * workers).

    load: by worker, added to.
    """
    found = np.empty(len(weights), np.int64)
    for place in np.argsort(-weights, kind="mergesort"):
        worker = _first_through(load, shares, weights[place])
        load[worker] += weights[place]
        found[place] = worker
    return found
