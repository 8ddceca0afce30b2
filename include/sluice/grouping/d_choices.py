"""D-Choices: a head key has d workers, as few as balance allows; a tail key has two.

Source: Nasir et al. 2016, "When two choices are not enough" (arXiv 1510.05714). Let p_1 >= p_2 >= ... be the
shares of the head's keys, and n the number of workers. The first h keys of the head name
b_h = n - n ((n - 1)/n)^(h d) distinct workers. d is the least number, not below p_1 n, for which these
workers are enough for all tuples that must go to them alone, or do so by chance: for each h

    p_1 + ... + p_h  +  (b_h/n)^d * (the rest of the head)  +  (b_h/n)^2 * (the tail)  <=  b_h (1/n + epsilon)

With d = n every worker may take the head, as in W-Choices. b_h is for independent hashes; ours never coincide
(`candidates`) and so name no fewer workers. A source cannot afford to solve for d at each tuple of the head.
It does so after 1, 3, 7, 15, ... tuples, at intervals that double up to `solve_every`.

Cost: O(1) for a tuple of the tail, O(d) for one of the head. Memory: as W-Choices; at the workers up to d
replicas of a key of the head, 2 of others, and more where d changed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from sluice.grouping.base import Router, Targets, WorkerCluster
from sluice.grouping.candidates import hashed
from sluice.grouping.compiled import step
from sluice.grouping.head import HeadStrategy, SourceHead, in_head
from sluice.grouping.load import own_counts
from sluice.grouping.parameters import within
from sluice.grouping.routing import LoopRouter, router_loop
from sluice.grouping.selection import EVERY, least_loaded
from sluice.runtime.arrays import Ints


class Choices(NamedTuple):
    """A source's head, and the d that was found for it.

    left: tuples until d is solved for again. interval: where `left` began.
    """

    head: SourceHead
    d: Ints
    left: Ints
    interval: Ints
    solve_every: int
    epsilon: float


@step
def _d_or_two(state: Choices, key: np.uint64, candidates: Targets) -> int:
    hot = in_head(state.head, key)
    state.left[0] -= 1
    if state.left[0] == 0:
        state.interval[0] = min(2 * state.interval[0], state.solve_every)
        state.left[0] = state.interval[0]
        state.d[0] = _solve(state.head, state.epsilon)
    if not hot:
        return hashed(state.head.hashes, key, 2, candidates)
    if state.d[0] == state.head.hashes.workers:
        return EVERY
    return hashed(state.head.hashes, key, state.d[0], candidates)


@step
def _solve(head: SourceHead, epsilon: float) -> int:
    """The least d, at most n, that meets all constraints. O(|head| * (d - p_1 n))."""
    workers, summary = head.hashes.workers, head.summary
    total, first, mass = summary.total[0], len(summary.counts), 0
    while first > 0 and summary.counts[first - 1] >= head.share * total:
        first -= 1
        mass += summary.counts[first]
    d = 2
    if first < len(summary.counts):
        d = max(2, math.ceil(summary.counts[-1] / total * workers))
    while d < workers and not _enough(head, first, mass / total, d, epsilon):
        d += 1
    return min(d, workers)


@step
def _enough(head: SourceHead, first: int, mass: float, d: int, epsilon: float) -> bool:
    """Whether d choices meet the constraint of each h.

    The head's counters are `first` and all after it; its share of the tuples is `mass`.
    """
    workers, counts, total = head.hashes.workers, head.summary.counts, head.summary.total[0]
    allowed = 1 + workers * epsilon  # b_h (1/n + epsilon) is b_h/n times this
    missed_by_one = (1 - 1 / workers) ** d
    prefix, missed = 0.0, 1.0
    for counter in range(len(counts) - 1, first - 1, -1):
        prefix += counts[counter] / total
        missed *= missed_by_one
        covered = 1 - missed
        if prefix + covered**d * (mass - prefix) + covered**2 * (1 - mass) > covered * allowed:
            return False
        if covered * allowed >= 1:  # The left side is never above 1: all further h are met too.
            return True
    return True


_route = router_loop(_d_or_two, least_loaded)


@dataclass(frozen=True)
class DChoices(HeadStrategy):
    """The rule of Nasir et al. 2016.

    theta, counters, half_life: `HeadStrategy`.
    epsilon: imbalance allowed, as a share of all tuples, 1e-9 to 1; the paper has 1e-4.
    solve_every: the longest interval between solutions for d, in tuples, 1 to 2**30.
    """

    name: ClassVar[str] = "d-choices"
    epsilon: float = 1e-4
    solve_every: int = 10_000

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "epsilon", 1e-9, 1)
        within(self, "solve_every", 1, 1 << 30)

    def router(self, cluster: WorkerCluster, *, source: int = 0, seed: int = 0) -> Router:
        state = Choices(
            head=self.head(cluster, seed),
            d=np.full(1, min(2, cluster.workers)),
            left=np.ones(1, np.int64),
            interval=np.ones(1, np.int64),
            solve_every=self.solve_every,
            epsilon=self.epsilon,
        )
        return LoopRouter(_route, state, own_counts(cluster, source))
