"""Key grouping: a key's hash names its only worker.

This is every engine's default. No parameters. Cost: one hash a tuple. Memory: none for a decision (the W
counts of what was sent are kept by every loop, `routing`); one replica a key. A hot key's worker gets all its
tuples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sluice.grouping.base import Router, Strategy, Targets, WorkerCluster
from sluice.grouping.candidates import Hashed, hashed
from sluice.grouping.compiled import step
from sluice.grouping.load import own_counts
from sluice.grouping.routing import LoopRouter, router_loop
from sluice.grouping.selection import only


@step
def _one(hashes: Hashed, key: np.uint64, candidates: Targets) -> int:
    return hashed(hashes, key, 1, candidates)


_route = router_loop(_one, only)


@dataclass(frozen=True)
class Key(Strategy):
    name: ClassVar[str] = "key"
    learns: ClassVar[bool] = False

    def router(self, cluster: WorkerCluster, *, source: int = 0, seed: int = 0) -> Router:
        return LoopRouter(_route, Hashed.of(cluster, seed), own_counts(cluster, source))
