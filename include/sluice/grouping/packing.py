"""Packing what a plan distributes onto workers, so that all are through at the same time with few replicas.

A piece goes, the largest first, to the worker that would be through first with it: LPT, longest processing
time (Graham 1969, "Bounds on multiprocessing timing anomalies"; for workers of unequal speed Gonzalez, Ibarra
and Sahni 1977, "Bounds for LPT schedules on uniform processors").
"""

from __future__ import annotations

import heapq

import numpy as np

from sluice.grouping.compiled import kernel, step
from sluice.runtime.arrays import Floats, Ints

#: Of a worker's share: by how much a key may overfill its worker before it is split. A split costs a replica,
#: and this much is less than chance adds to any worker of fewer than 10,000 tuples.
OVERFILL = 0.01


@step
def _first_through(load: Floats, shares: Floats, weight: float) -> int:
    """The worker that would be through first with this weight added; of equal ones the first."""
    best, least = 0, np.inf
    for worker in range(len(load)):
        through = (load[worker] + weight) / shares[worker]
        if through < least:
            best, least = worker, through
    return best


@kernel
def pack_keys(weights: Floats, shares: Floats, total: float, load: Floats) -> tuple[Ints, Ints, Floats]:
    """Pack keys, splitting what fits into no worker. Returns pieces: of which key, where, how heavy.

    Such a key fills the worker with most room left, and the rest of it is a piece like all others. A split
    fills a worker, so there are at most as many splits as workers. Among equal workers a key of n to n + 1
    shares has n + 1 pieces while empty workers last: with fewer it would overfill one.

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
    """Pack what cannot be split: a worker for each weight. O(weights * workers).

    load: by worker, added to.
    """
    found = np.empty(len(weights), np.int64)
    for place in np.argsort(-weights, kind="mergesort"):
        worker = _first_through(load, shares, weights[place])
        load[worker] += weights[place]
        found[place] = worker
    return found
