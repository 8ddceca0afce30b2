"""The workers that a key's hashes name: a sequence that goes through all workers once.

A key's d candidates are the first d of its sequence. The first is `worker_of` the key's hash, as in key
grouping. The second is another one, `second_worker`. Their distance is the step to all further ones (double
hashing, which balances as d independent hashes do: Mitzenmacher 2014, "Balanced allocations and double
hashing"). When the steps come back to where they began, they go on from the next worker, so no two candidates
of a key coincide. A key that gets more candidates keeps those that it had.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.grouping.base import Targets, WorkerCluster
from sluice.grouping.compiled import step
from sluice.grouping.hashing import mix, second_worker, worker_of


class Hashed(NamedTuple):
    """The sequences of one run.

    All its sources have the same ones, so they agree on each key's candidates.
    """

    seed: np.uint64
    workers: int

    @classmethod
    def of(cls, cluster: WorkerCluster, seed: int) -> Hashed:
        # A run uses two hashes, and the next seed's run two others.
        return cls(np.uint64(2 * seed % (1 << 64)), cluster.workers)


@step
def hashed(hashes: Hashed, key: np.uint64, count: int, candidates: Targets) -> int:
    """Write a key's first `count` candidates and return how many there are.

    There are at most as many as workers. O(count).
    """
    workers = hashes.workers
    first = worker_of(mix(key, hashes.seed), workers)
    candidates[0] = first
    if count == 1 or workers == 1:
        return 1
    second = second_worker(key, hashes.seed + np.uint64(1), first, workers)
    candidates[1] = second
    distance = second - first if second > first else second - first + workers
    count = min(count, workers)
    began, worker = first, second
    for i in range(2, count):
        worker += distance
        if worker >= workers:
            worker -= workers
        if worker == began:
            began = began + 1 if began + 1 < workers else 0
            worker = began
        candidates[i] = worker
    return count
