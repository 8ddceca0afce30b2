"""The head of a stream: the keys so frequent that two workers cannot carry them.

Source: Nasir et al. 2016, "When two choices are not enough" (arXiv 1510.05714). Each source finds the head by
itself, with Space-Saving. A key is in the head while its estimated share of the tuples is at least theta/W.
Two choices provably balance keys below 1/(5W) and cannot balance a key above 2/W; theta/W lies between. Until
a source has counted W/theta tuples every key is in the head, because a single tuple is that large a share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sluice.grouping.base import ParameterOutOfBounds, Strategy, WorkerCluster
from sluice.grouping.candidates import Hashed
from sluice.grouping.compiled import step
from sluice.grouping.frequency.decay import FOREVER
from sluice.grouping.frequency.space_saving import SpaceSaving, observe, space_saving
from sluice.grouping.parameters import within


class SourceHead(NamedTuple):
    """A source's head. share: theta/W, the least share of tuples that puts a key into it."""

    hashes: Hashed
    summary: SpaceSaving
    share: float


@step
def in_head(head: SourceHead, key: np.uint64) -> bool:
    """Count a key and return whether it is in the head."""
    count = observe(head.summary, key)
    return count >= head.share * head.summary.total[0]  # type: ignore[no-any-return]


@dataclass(frozen=True)
class HeadStrategy(Strategy):
    """The parameters of strategies that tell head from tail.

    theta: the head's least share as a multiple of 1/W, 0.2 to 2; the paper's evaluation has 0.2.
    counters: of Space-Saving, for each worker, 1 to 1,000. Estimates are too high by at most 1/(counters * W)
      of the tuples; a theta/W that is not above this is refused, because every key would be in the head.
    half_life: in tuples (`frequency.decay`), above W/theta, to 2**40. What is remembered must tell a key of
      the head from one that was seen once. The paper never forgets, which is the default.
    """

    theta: float = 0.2
    counters: int = 50
    half_life: int = FOREVER

    def __post_init__(self) -> None:
        within(self, "theta", 0.2, 2)
        within(self, "counters", 1, 1_000)
        within(self, "half_life", 1, FOREVER)
        if self.theta * self.counters <= 1:
            finest = f"above 1/counters = {1 / self.counters:g}, the finest that the summary can tell"
            raise ParameterOutOfBounds(self.name, "theta", self.theta, finest)

    def head(self, cluster: WorkerCluster, seed: int) -> SourceHead:
        """An empty head. Raises ParameterOutOfBounds if the half-life is too short for the workers."""
        if self.half_life * self.theta <= cluster.workers:
            shortest = f"above W/theta = {cluster.workers / self.theta:g}"
            raise ParameterOutOfBounds(self.name, "half_life", self.half_life, shortest)
        summary = space_saving(self.counters * cluster.workers, self.half_life)
        return SourceHead(Hashed.of(cluster, seed), summary, self.theta / cluster.workers)
