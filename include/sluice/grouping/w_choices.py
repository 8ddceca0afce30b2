"""W-Choices: head keys go to the least loaded worker, tail keys to the less loaded of two.

Source: Nasir et al. 2016, "When two choices are not enough" (arXiv 1510.05714). Parameters:
`HeadStrategy`.

Cost: O(1) for a tuple of the tail, O(W) for one of the head. Memory: 64 to 88 bytes a counter and W counts a
source; at the workers up to W replicas of a key of the head, 2 of others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sluice.grouping.base import Router, Targets, WorkerCluster
from sluice.grouping.candidates import hashed
from sluice.grouping.compiled import step
from sluice.grouping.head import HeadStrategy, SourceHead, in_head
from sluice.grouping.load import own_counts
from sluice.grouping.routing import LoopRouter, router_loop
from sluice.grouping.selection import EVERY, least_loaded


@step
def _all_or_two(head: SourceHead, key: np.uint64, candidates: Targets) -> int:
    return EVERY if in_head(head, key) else hashed(head.hashes, key, 2, candidates)


_route = router_loop(_all_or_two, least_loaded)


@dataclass(frozen=True)
class WChoices(HeadStrategy):
    name: ClassVar[str] = "w-choices"

    def router(self, cluster: WorkerCluster, *, source: int = 0, seed: int = 0) -> Router:
        return LoopRouter(_route, self.head(cluster, seed), own_counts(cluster, source))
