"""Shuffle grouping: each source sends to all workers in turn, regardless of the keys.

This is every engine's choice for work without state. No parameters. Cost: an addition a tuple, vectorised.
Memory: one number a source; up to W replicas a key. Each source begins at another worker; otherwise the first
workers would get every source's remainder.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sluice.grouping.base import Router, Strategy, Targets, WorkerCluster
from sluice.runtime.arrays import Hashes


class _Rounds(Router):
    def __init__(self, workers: int, first: int) -> None:
        self._workers, self._next = workers, first

    def route(self, keys: Hashes) -> Targets:
        targets = np.arange(self._next, self._next + len(keys)) % self._workers
        self._next = (self._next + len(keys)) % self._workers
        return targets.astype(np.int32)

    @property
    def nbytes(self) -> int:
        return np.dtype(np.int64).itemsize


@dataclass(frozen=True)
class Shuffle(Strategy):
    name: ClassVar[str] = "shuffle"

    def router(self, cluster: WorkerCluster, *, source: int = 0, seed: int = 0) -> Router:
        return _Rounds(cluster.workers, (source + seed) % cluster.workers)
