"""Network-aware grouping: weighted round robin over all workers, regardless of the key.

Chen, Wu, Jin 2018, "Network-aware grouping in distributed stream processing systems" (ICA3PP), as summed up
in paper 001, section 1, and in its own abstract. The channel to a worker has a weight and a priority that
depend on its distance in the network. Tuples are sent by weight and priority, and the weights are adjusted
while the job runs. The formulas are left open; here they are:

- a worker's weight is 1/t_i (`WorkerCluster.times`); for the network alone, t may be the delays of paper 001,
  table 1;
- the weighted round robin is stride scheduling (Waldspurger and Weihl 1995): the next tuple goes to the
  worker with the least (m_i + 1) / weight_i, where m_i is how many tuples this source sent it in this window.
  The nearest workers come first, and none is ever more than one tuple ahead of another by weight;
- at a window's end each weight moves by `adjust` of the way to what the window measured, and the round begins
  again. What was sent by the old weights is not made up for.

A key's tuples go to all workers, as with shuffle: NAG is paper 001's baseline for latency, not for memory.

Cost: O(W) a tuple. Memory: two numbers a worker and source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sluice.grouping.base import Router, Strategy, Targets, WorkerCluster
from sluice.grouping.candidates import Hashed
from sluice.grouping.compiled import step
from sluice.grouping.load import SourceLoad, completion_times
from sluice.grouping.parameters import within
from sluice.grouping.routing import LoopRouter, router_loop
from sluice.grouping.selection import EVERY


@step
def _every(state: Hashed, key: np.uint64, candidates: Targets) -> int:
    return EVERY


@step
def _stride(candidates: Targets, count: int, load: SourceLoad, key: np.uint64) -> int:
    """The worker whose next turn comes first.

    Of equal ones it is the first, counted from the source's own place.
    """
    workers = len(load.sent)
    best, least = load.first, np.inf
    for i in range(load.first, load.first + workers):
        worker = i if i < workers else i - workers
        turn = (load.sent[worker] + 1) * load.times[worker]
        if turn < least:
            best, least = worker, turn
    return best


_route = router_loop(_every, _stride)


class NagRouter(LoopRouter[Hashed, SourceLoad]):
    """A source's weights, kept as times, and its place in the round."""

    def __init__(self, strategy: NAG, cluster: WorkerCluster, source: int) -> None:
        self._adjust = strategy.adjust
        super().__init__(_route, Hashed.of(cluster, 0), completion_times(cluster, source))

    def window(self, cluster: WorkerCluster) -> None:
        measured = 1 / np.asarray(cluster.times)
        weights = (1 - self._adjust) / self.load.times + self._adjust * measured
        self.load.times[:] = 1 / weights
        self.load.sent[:] = 0


@dataclass(frozen=True)
class NAG(Strategy):
    """The rule of Chen, Wu, Jin.

    adjust: how far a window moves the weights to what it measured; 0 (never) to 1 (all the way).
    """

    name: ClassVar[str] = "nag"

    adjust: float = 0.5

    def __post_init__(self) -> None:
        within(self, "adjust", 0, 1)

    def router(self, cluster: WorkerCluster, *, source: int = 0, seed: int = 0) -> Router:
        return NagRouter(self, cluster, source)
