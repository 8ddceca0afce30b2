"""Strategies of grouping in Spark, on the same batches and cluster, with a job per batch.

The driver keeps the routers of a contender's sources, and a job gets what they know. After the job, outside
the clock, the driver's routers route the same tuples, so they then know what the sources know (same input,
same output). Then the strategy is shown what the batch counted; the time of that counts as the batch's.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sluice.grouping import strategy
from sluice.grouping.base import Strategy, WorkerCluster
from sluice.grouping.imbalance import imbalance
from sluice.runtime.arrays import Floats, Hashes
from sluice_lab.bench.contenders import Disagree
from sluice_lab.bench.grouping_job import run
from sluice_lab.bench.grouping_measures import Ran, SlotLoads
from sluice_lab.bench.grouping_stages import GroupingJob, Service, write
from sluice_lab.bench.grouping_states import States, aggregate, from_payloads, merge, same
from sluice_lab.bench.salting import Salting
from sluice_lab.bench.timing import interleaved
from sluice_lab.simulate import Simulation
from sluice_lab.streams import Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUBLISHED = ("key", "shuffle", "pkg", "kg2", "tag")


def rules() -> dict[str, Strategy]:
    """All contenders, with their default parameters."""
    ours = {name: strategy(name) for name in (*PUBLISHED, "combine")}
    return {**ours, Salting.name: Salting(), "planned": strategy("planned")}


@dataclass(frozen=True)
class ContenderSetting:
    """What contenders have in common.

    tuples: in a batch. sources: their number; each has equally many tuples. service: what a tuple costs.
    size: bytes of a key's state. folder: for slices of batches, which are its only content.
    """

    stream: Stream
    tuples: int
    cluster: WorkerCluster
    sources: int
    service: Service
    size: int
    folder: Path

    def keys(self, batch: int) -> Hashes:
        return self.stream.batch(batch, self.tuples)

    def values(self, batch: int) -> Hashes:
        return np.random.default_rng([batch, self.tuples]).integers(
            1 << 64, size=self.tuples, dtype=np.uint64
        )

    @property
    def times_of_sources(self) -> Floats:
        """t_i of the sources' slots, spread evenly over the workers' slots; shape (sources,)."""
        slots = np.arange(self.sources) * self.cluster.workers // self.sources
        return np.asarray(self.cluster.times)[slots]

    def slices(self, batch: int) -> list[str]:
        """Each source's file, written on first use; tuples come to the sources in turn."""
        paths = [self.folder / f"{batch}-{source}.arrow" for source in range(self.sources)]
        if not paths[-1].exists():
            keys, values = self.keys(batch), self.values(batch)
            for source, path in enumerate(paths):
                write(str(path), keys[source :: self.sources], values[source :: self.sources])
        return [str(path) for path in paths]


class Contender:
    """A strategy that has seen one batch and is timed on the next ones, one per call."""

    def __init__(self, session: SparkSession, rule: Strategy, setting: ContenderSetting) -> None:
        self.ran: list[Ran] = []
        self._session, self._rule, self._setting = session, rule, setting
        self._driver = Simulation(rule, setting.cluster, sources=setting.sources)
        self._driver.batch(setting.keys(0))

    def __call__(self) -> States:
        """Group the next batch; returns its states, one per key."""
        setting, batch = self._setting, len(self.ran) + 1
        job = GroupingJob(
            strategy=self._rule,
            cluster=setting.cluster,
            slices=setting.slices(batch),
            carried=[router.carried() for router in self._driver.routers],
            service=setting.service,
            size=setting.size,
        )
        begun, clock = time.time(), time.perf_counter()
        rows = run(self._session, job)
        gathered = time.perf_counter()
        pieces = (piece.as_buffer() for piece in rows.column("states"))
        states = merge(from_payloads(pieces, setting.size))
        merged = time.perf_counter()
        boundary = self._driver.batch(setting.keys(batch)).boundary

        combined, loads = self._rule.combines, SlotLoads.of(rows)
        p50, p99 = np.percentile(loads.latencies() - begun, [50, 99]).tolist()
        times = setting.times_of_sources if combined else np.asarray(setting.cluster.times)
        self.ran.append(
            Ran(
                seconds=merged - clock + boundary,
                boundary=boundary,
                merging=merged - gathered,
                span=loads.span,
                uneven=imbalance(loads.by_worker(times)).relative,
                sent=int(loads.received.sum()),
                partials=int(loads.held.sum()) // states.itemsize,
                state=int(loads.held.sum()),
                most=int(loads.held.max()),
                source=self._driver.nbytes,
                p50=p50,
                p99=p99,
                figures=loads.figures(
                    states, sources=setting.sources, workers=setting.cluster.workers, combined=combined
                ),
            )
        )
        return states


def compare(
    session: SparkSession, chosen: Mapping[str, Strategy], setting: ContenderSetting, rounds: int, label: str
) -> dict[str, list[Ran]]:
    """What each contender measured in turn; each one's first batch is checked but not kept.

    Raises Disagree if a contender's states are not those of the batch aggregated in one piece.
    """
    contenders = {name: Contender(session, rule, setting) for name, rule in chosen.items()}
    wanted = aggregate(setting.keys(1), setting.values(1), setting.size)
    for name, contender in contenders.items():
        if not same(contender(), wanted):
            raise Disagree(f"{label}, {name}: not the states of the batch in one piece")
    interleaved(contenders, rounds, label)
    return {name: contender.ran[1:] for name, contender in contenders.items()}
