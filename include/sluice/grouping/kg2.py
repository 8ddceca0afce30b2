"""KG2: a key that Lossy Counting calls hot may go to a fifth of the workers, others to two.

Paper 000, section 3.2. A source counts keys by Lossy Counting (Manku and Motwani 2002) with support s = 0.05.
In a vector of W numbers it counts the tuples that it sent to each worker. A tuple goes to the candidate of
its key that is least loaded by that vector. A hot key has W/5 hashed workers as candidates, a cold key has
two, and where W/5 < 2 all keys have two.

What the paper leaves open, and what is done here:

- epsilon: s/10, as Manku and Motwani recommend;
- a key is hot if Lossy Counting would report it, with an estimate of at least (s - epsilon) N. So every key
  above s N is hot, and none below (s - epsilon) N is;
- W/5 is rounded up; a key's candidates never coincide, and a key that turns hot keeps the two that it had
  (`candidates`);
- the summary never forgets, so a key that was hot long ago may stay hot: `half_life` changes that.

s does not follow W: at W = 64 a key just below 5 % has the fair shares of 3.2 workers, but only two workers.
This limits KG2's balance, and s = 1/(5W) removes the limit.

Cost: O(1) a tuple, O(W/5) for a hot key's. Memory: 1/epsilon * log(epsilon N) counters and W loads a
source; a hot key has W/5 replicas, a cold one two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from sluice.grouping.base import Router, Strategy, Targets, WorkerCluster
from sluice.grouping.candidates import Hashed, hashed
from sluice.grouping.compiled import step
from sluice.grouping.frequency.decay import FOREVER
from sluice.grouping.frequency.lossy_counting import LossyCounting, lossy_counting, observe
from sluice.grouping.load import own_counts
from sluice.grouping.parameters import within
from sluice.grouping.routing import LoopRouter, router_loop
from sluice.grouping.selection import least_loaded

CHOICES = 2


class _State(NamedTuple):
    """What the assignment needs.

    share: of the tuples counted; a key is hot from it on. choices: a hot key's candidates.
    """

    summary: LossyCounting
    hashes: Hashed
    share: float
    choices: int


@step
def _assign(state: _State, key: np.uint64, candidates: Targets) -> int:
    hot = observe(state.summary, key) >= state.share * state.summary.total[0]
    return hashed(state.hashes, key, state.choices if hot else CHOICES, candidates)


_route = router_loop(_assign, least_loaded)


@dataclass(frozen=True)
class KG2(Strategy):
    """Paper 000's rule.

    support: the share of all tuples above which a key is hot; 0.0001 to 1.
    error: epsilon of Lossy Counting; 0.00001 to `support` / 2, because a coarser summary calls any key hot.
    part: a hot key may go to one worker in `part`; 1 (to all) to 65,536.
    half_life: after how many tuples a count weighs half (`decay`); 1 to 2**40, which is never.
    """

    name: ClassVar[str] = "kg2"

    support: float = 0.05
    error: float = 0.005
    part: int = 5
    half_life: int = FOREVER

    def __post_init__(self) -> None:
        within(self, "support", 0.0001, 1)
        within(self, "error", 0.00001, self.support / 2)
        within(self, "part", 1, 1 << 16)
        within(self, "half_life", 1, FOREVER)

    def router(self, cluster: WorkerCluster, *, source: int = 0, seed: int = 0) -> Router:
        state = _State(
            lossy_counting(self.error, self.half_life),
            Hashed.of(cluster, seed),
            self.support - self.error,
            max(CHOICES, -(-cluster.workers // self.part)),
        )
        return LoopRouter(_route, state, own_counts(cluster, source))
