"""How one task is grouped, from batch to batch."""

from __future__ import annotations

import time
from collections.abc import Collection
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.rowkey import series_values
from sluice.engine.tuples import hash_keys
from sluice.grouping import strategy
from sluice.grouping.auto import COMBINE, LEAST_TUPLES, Auto, BatchFigures, rows_if_combined
from sluice.runtime.arrays import Floats, Ints
from sluice.speed.routed.batches import TaskBatch
from sluice.speed.routed.hot_keys import RoutedHotKeys
from sluice.speed.routed.imbalances import Imbalances
from sluice.speed.routed.report import CHARACTERS, HOT, LOADS
from sluice.speed.routed.routes import Route, pickled, resume
from sluice.speed.routed.times import WorkerTimes
from sluice.tasks.grouping import AUTO, BY_DEFAULT, GroupingSpec
from sluice.tasks.spec import ActiveTask

if TYPE_CHECKING:
    from sluice.grouping.base import Router, Strategy


class TaskRouting:
    """A task version's strategy, its sources' routers, and what was measured.

    All of it may be lost: without it a batch is grouped worse, but counted the same.
    """

    def __init__(self, seed: int, workers: int) -> None:
        self._seed, self._workers = seed, workers
        self._asked = BY_DEFAULT
        self._auto = Auto()
        self._strategy: Strategy | None = None  # None: combined
        self._routed = False  # whether the batch under way is sent by it
        self._routers: dict[int, Router] = {}
        self._sources: list[int] = []
        self._error: str | None = None
        self._times, self._hot = WorkerTimes(self._workers), RoutedHotKeys()
        self._imbalances = Imbalances()
        self._load: tuple[Ints, Floats] | None = None
        self._held: pa.Table | None = None
        self._at: datetime | None = None

    def ask(self, wanted: GroupingSpec) -> None:
        """Group by this from the next batch on."""
        if wanted != self._asked:
            self._asked, self._auto = wanted, Auto()
            self._use(COMBINE if wanted.strategy == AUTO else wanted.strategy)

    def route(self, sources: Collection[int], lines: int) -> Route | None:
        """How these sources send the next batch's tuples; None if they aggregate them themselves.

        A second stage takes a tenth of a second even when next to nothing is in it. A task that asks for a
        strategy by name gets it anyway, but `auto` spares a batch that has too few `lines` to judge by.
        """
        self._sources = sorted(sources)
        spared = self._asked.strategy == AUTO and lines < LEAST_TUPLES
        self._routed = not spared and self._made_routers()
        if self._strategy is None or not self._routed:
            return None
        return Route(self._strategy, self._times.cluster, self._seed, pickled(self._routers))

    def counted(self, batch: TaskBatch) -> None:
        """A batch was committed: learn from it how to group the next one."""
        self._at = datetime.now(UTC)
        self._hot.add(*batch.by_key, batch.tuples, batch.unnamed)
        self._load, self._held = None, None
        if self._routed:
            self._measure(batch)
            for source, state in batch.routers.items():
                if source in self._routers:
                    resume(self._routers[source], state)
            self._boundary(batch)
        if self._asked.strategy == AUTO:
            before = self._auto.decision.strategy
            after = self._auto.observe(self._figures(batch)).strategy
            if after != before:
                self._use(after)
                if self._made_routers():
                    self._boundary(batch)  # so that the new strategy begins with a plan

    def shown(self, task: ActiveTask, topic: str) -> dict[str, Any]:
        """The task's `GroupingReport`, as JSON takes it."""
        return {
            "task": task.spec.name,
            "label": task.label,
            "topic": topic,
            "asked": self._asked.document(),
            "strategy": COMBINE if self._strategy is None else self._strategy.name,
            "error": self._error,
            "decision": self._auto.decision.document() if self._asked.strategy == AUTO else None,
            "plan": self._plan(),
            "imbalance": self._imbalances.shown() if self._load is not None else None,
            "load": self._loads(),
            "hot": self._hot_keys(len(task.spec.dimensions)),
            "batch_at": None if self._at is None else self._at.isoformat(timespec="milliseconds"),
        }

    def _use(self, name: str) -> None:
        self._routers, self._error = {}, None
        parameters = dict(self._asked.parameters) if name == self._asked.strategy else {}
        made = strategy(name, **parameters) if name != COMBINE else None
        self._strategy = None if made is None or made.combines else made

    def _made_routers(self) -> bool:
        """Give each source a router; False if no strategy works with this number of workers."""
        if self._strategy is None:
            return False
        cluster = self._times.cluster
        try:
            for source in self._sources:
                if source not in self._routers:
                    made = self._strategy.router(cluster, source=source, seed=self._seed)
                    self._routers[source] = made
        except ValueError as error:  # a parameter out of the bounds that follow from the number of workers
            self._strategy, self._error = None, f"{error}: it is combined instead"
            return False
        return True

    def _measure(self, batch: TaskBatch) -> None:
        from sluice.grouping.imbalance import imbalance

        tuples, seconds = self._load = batch.by_worker(self._workers)
        self._times.add(tuples, seconds)
        self._held = batch.held
        load = tuples * np.asarray(self._times.cluster.times)
        self._imbalances.add(time.monotonic(), int(tuples.sum()), imbalance(load).relative)

    def _boundary(self, batch: TaskBatch) -> None:
        from sluice.grouping.base import Counts

        if self._strategy is None:
            return
        routers = [self._routers[source] for source in sorted(self._routers)]
        keys, counts = batch.by_key
        self._strategy.boundary(routers, self._times.cluster, Counts(hash_keys(keys), counts))

    def _figures(self, batch: TaskBatch) -> BatchFigures:
        combined = not self._routed
        # A worker's time for a tuple includes finding its series, which the model counts separately.
        cost = batch.cost if combined else max(0.0, batch.cost - self._auto.costs.take)
        return BatchFigures(
            tuples=batch.tuples,
            groups=batch.groups,
            rows=batch.rows if combined else rows_if_combined(batch.counts, max(1, len(self._sources))),
            cost=cost,
            state=batch.state,
            top=batch.top,
            widest=batch.widest,
            workers=self._workers,
        )

    def _plan(self) -> dict[str, float] | None:
        """The strategy's plan, which is the same for all sources; None without one."""
        router = next(iter(self._routers.values()), None)
        return None if router is None else router.planned()

    def _loads(self) -> list[dict[str, Any]]:
        if self._load is None:
            return []
        tuples, seconds = self._load
        times = self._times.cluster.times
        busiest = np.sort(np.argsort(-tuples * np.asarray(times), kind="stable")[:LOADS]).tolist()
        return [
            {"worker": n, "tuples": int(tuples[n]), "seconds": float(seconds[n]), "time": times[n]}
            for n in busiest
        ]

    def _hot_keys(self, dimensions: int) -> list[dict[str, Any]]:
        found = []
        for hot in self._hot.top(HOT):
            values = [value[:CHARACTERS] for value in series_values(hot.key, dimensions)]
            workers = self._holders(hot.key)
            found.append({"key": values, "share": hot.share, "error": hot.error, "workers": workers})
        return found

    def _holders(self, key: str) -> list[int]:
        if self._held is None:
            return []
        own = self._held.filter(pc.equal(self._held.column("key"), key))
        return sorted(set(own.column("worker").to_pylist()))
