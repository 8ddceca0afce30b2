"""Planned grouping: this project's own strategy, for engines that work in batches.

Between two batches one place knows what all sources sent, and makes a plan from it (`planner`). The few keys
that are too large for one worker are split in exact fractions, and all others stay whole. Both are packed so
that all workers finish at the same time. Within a batch a source looks up each tuple's worker
(`planned_loop`). It sends elsewhere what the plan could not know: what chance adds to a worker, and keys that
turn hot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np

from sluice.grouping.base import Counts, Router, Strategy, Targets, WorkerCluster
from sluice.grouping.frequency.space_saving import space_saving
from sluice.grouping.frequency.table import NOWHERE, table
from sluice.grouping.parameters import within
from sluice.grouping.planned_loop import Source, route_planned
from sluice.grouping.planner import plan
from sluice.grouping.routing import memory
from sluice.grouping.routing_plan import GOLDEN, NONE, RoutingPlan
from sluice.grouping.summary import Summary
from sluice.runtime.arrays import Hashes

_APART = 0xB504F333F9DE6485  # 2**64 / sqrt(2): how far apart the sources begin in a key's sequence
_WORD = (1 << 64) - 1


@dataclass(frozen=True)
class Planned(Strategy):
    """Plan each batch from the last ones.

    buckets: how many there are for keys that are not listed, 64 to 2**20. More pack better but are more to
    ship.
    grain: a key with at least this part of a worker's mean share is listed, 1/256 to 1.
    room: how many keys of the past are remembered one by one, 1,024 to 2**22; others only by their buckets.
    half_life: after how many batches a batch counts half as much, 0.1 to 1,000. A hot key that is gone has
    less than a hundredth of its weight after seven half-lives.
    tolerance: standard deviations by which a worker may be ahead of its share, 0.1 to a million. With a
    million the plan is never corrected. Less balances better and costs replicas; 3 corrects nothing that
    chance explains.
    patience: how many more standard deviations are tolerated when a batch begins, 0 to 100.
    alarm: a key turns hot when it has this many standard deviations of tuples too many, 1 to 100.
    counters: of the summary that finds such keys, and how many it may find in a batch, 16 to 65,536.

    A tuple: O(1). Memory: 9 bytes a bucket, up to 150 a listed key, 130 a counter, and 24 a worker.
    Before the first batch, buckets are spread evenly: this is key grouping that also catches hot keys.
    """

    name: ClassVar[str] = "planned"
    learns: ClassVar[bool] = False

    buckets: int = 8192
    grain: float = 1 / 16
    room: int = 1 << 14
    half_life: float = 1.0
    tolerance: float = 0.6
    patience: float = 1.5
    alarm: float = 4.0
    counters: int = 256

    def __post_init__(self) -> None:
        within(self, "buckets", 64, 1 << 20)
        within(self, "grain", 1 / 256, 1)
        within(self, "room", 1024, 1 << 22)
        within(self, "half_life", 0.1, 1000)
        within(self, "tolerance", 0.1, 1_000_000)
        within(self, "patience", 0, 100)
        within(self, "alarm", 1, 100)
        within(self, "counters", 16, 1 << 16)

    def router(self, cluster: WorkerCluster, *, source: int = 0, seed: int = 0) -> PlannedRouter:
        past = Summary.empty(seed=seed & _WORD, room=self.room, buckets=self.buckets)
        return PlannedRouter(self, cluster, source, past)

    def boundary(self, routers: Sequence[Router], cluster: WorkerCluster, batch: Counts) -> None:
        """Make one plan for all sources; each is expected to send as much as any other."""
        ours = cast("Sequence[PlannedRouter]", routers)
        if not ours:
            return
        past = ours[0].past.then(batch, 0.5 ** (1 / self.half_life))
        made = plan(past, cluster, self.grain)
        for router in ours:
            router.adopt(past, made, made.expected / len(ours))


class PlannedRouter(Router):
    """A source with a plan. `past` is what its plan was made from, and the next will be.

    The first plan is made only when it is needed: a source that resumes with another's plan never needs it.
    """

    def __init__(self, strategy: Planned, cluster: WorkerCluster, source: int, past: Summary) -> None:
        self._strategy, self._cluster, self._source = strategy, cluster, source
        self.past = past

    @cached_property
    def plan(self) -> RoutingPlan:
        return plan(self.past, self._cluster, self._strategy.grain)

    @cached_property
    def state(self) -> Source:
        return self._state(self.plan, expected=0.0)

    def adopt(self, past: Summary, plan: RoutingPlan, expected: float) -> None:
        """Begin a batch with a plan. expected: tuples that this source will send; 0: unknown."""
        self.past, self.plan, self.state = past, plan, self._state(plan, expected)

    def _state(self, plan: RoutingPlan, expected: float) -> Source:
        strategy, units = self._strategy, plan.units + self._strategy.counters
        return Source(
            expected=expected,
            tolerance=strategy.tolerance,
            patience=strategy.patience,
            alarm=strategy.alarm,
            roots=np.sqrt(plan.shares),
            sent=np.zeros(plan.workers, np.int64),
            tuples=np.zeros(1, np.int64),
            positions=plan.keys * GOLDEN + np.uint64(self._source * _APART & _WORD),
            elsewhere=np.full(units, NONE, np.int32),
            rounds=np.zeros(units, np.int32),
            hot=table(strategy.counters),
            places=np.full(strategy.counters, NOWHERE, np.int32),
            found=np.zeros(1, np.int64),
            seen=space_saving(strategy.counters),
        )

    def route(self, keys: Hashes) -> Targets:
        # Arrow's arrays are read-only, which is another type to numba. A copy costs less than a second loop.
        keys = np.require(keys, np.uint64, ["C", "W"])
        targets = np.empty(len(keys), np.int32)
        route_planned(keys, targets, self.plan, self.state)
        return targets

    def planned(self) -> dict[str, float] | None:
        plan = self.plan
        return {
            "expected": plan.expected,
            "listed": len(plan.keys),
            "split": int(np.count_nonzero(np.diff(plan.first) > 1)),
            "buckets": plan.units - len(plan.keys),
        }

    def carried(self) -> dict[str, Any]:
        """Only the plan and the tuples expected.

        A batch begins with new counts, and only the next plan needs the past.
        """
        return {"plan": self.plan, "expected": self.state.expected}

    def resume(self, carried: Mapping[str, Any]) -> None:
        self.adopt(self.past, carried["plan"], carried["expected"])

    @property
    def nbytes(self) -> int:
        return memory(self.plan) + memory(self.state)
