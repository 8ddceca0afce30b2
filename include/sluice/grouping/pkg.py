"""Partial key grouping: every key has two workers and goes to the less loaded one.

Source: Nasir et al. 2015, "The power of both choices" (arXiv 1504.00788): key splitting and local load
estimation. Two plain hashes would name the same worker for one key in W; here the second hash never names the
first one's worker. No parameters.

Cost: two hashes a tuple. Memory: W counts a source; at the workers at most 2 replicas a key. It balances
while no key has more than 2/W of all tuples.
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
from sluice.grouping.selection import least_loaded


@step
def _two(hashes: Hashed, key: np.uint64, candidates: Targets) -> int:
    return hashed(hashes, key, 2, candidates)


_route = router_loop(_two, least_loaded)


@dataclass(frozen=True)
class PartialKey(Strategy):
    name: ClassVar[str] = "pkg"

    def router(self, cluster: WorkerCluster, *, source: int = 0, seed: int = 0) -> Router:
        return LoopRouter(_route, Hashed.of(cluster, seed), own_counts(cluster, source))
