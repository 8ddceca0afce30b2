"""Strategies of grouping at work in Spark: the same batches, the same cluster, one job a batch each.

The driver keeps the routers of a contender's sources. A job gets what they know; afterwards, outside the
clock, the driver's own route the same tuples, so they know what the sources then know (same input, same
output), and the strategy is shown what the batch counted. The time of that is the batch's, too.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.grouping import strategy
from sluice.grouping.auto import Figures, rows_if_combined, top_share
from sluice.grouping.base import Cluster, Floats, Strategy
from sluice.grouping.hashing import Hashes
from sluice.grouping.lab.simulate import Simulation
from sluice.grouping.lab.streams import Stream
from sluice.grouping.measures import imbalance
from tests.bench.contenders import Disagree
from tests.bench.grouping_job import run
from tests.bench.grouping_stages import FOUND_ARROW, Job, Service, write
from tests.bench.grouping_states import States, aggregate, from_payloads, merge, same
from tests.bench.salting import Salting
from tests.bench.timing import interleaved

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUBLISHED = ("key", "shuffle", "pkg", "kg2", "tag")


def rules() -> dict[str, Strategy]:
    """All contenders, with their default parameters."""
    ours = {name: strategy(name) for name in (*PUBLISHED, "combine")}
    return {**ours, Salting.name: Salting(), "planned": strategy("planned")}


@dataclass(frozen=True)
class Setting:
    """What contenders have in common.

    tuples: in a batch. sources: that have as many of them each. service: what a tuple costs. size: bytes of a
    key's state. folder: for slices of batches; they are its only content.
    """

    stream: Stream
    tuples: int
    cluster: Cluster
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

    def slices(self, batch: int) -> list[str]:
        """Each source's file, written when it is first asked for. Tuples come to the sources in turn."""
        paths = [self.folder / f"{batch}-{source}.arrow" for source in range(self.sources)]
        if not paths[-1].exists():
            keys, values = self.keys(batch), self.values(batch)
            for source, path in enumerate(paths):
                write(str(path), keys[source :: self.sources], values[source :: self.sources])
        return [str(path) for path in paths]


@dataclass(frozen=True)
class Ran:
    """One batch of one contender.

    seconds: of it all, until the states are merged and the next batch may begin. boundary, merging: those of
    them in which the strategy looked back, and in which the driver merged. span: seconds from the first
    tuple's service to the last one's. uneven: max / mean - 1 of the workers' loads. sent: bytes between the
    stages. partials: rows that were merged. state: bytes that workers held; most: of the one that held most.
    source: bytes that the largest source's router took. p50, p99: seconds from the batch's beginning until a
    tuple was aggregated. figures: what `auto` would decide by.
    """

    seconds: float
    boundary: float
    merging: float
    span: float
    uneven: float
    sent: int
    partials: int
    state: int
    most: int
    source: int
    p50: float
    p99: float
    figures: Figures


class Contender:
    """A strategy that has seen one batch, and is timed on the next ones: one with each call."""

    def __init__(self, session: SparkSession, rule: Strategy, setting: Setting) -> None:
        self.ran: list[Ran] = []
        self._session, self._rule, self._setting = session, rule, setting
        self._driver = Simulation(rule, setting.cluster, sources=setting.sources)
        self._driver.batch(setting.keys(0))

    def __call__(self) -> States:
        """Group the next batch; its states, one a key."""
        setting, batch = self._setting, len(self.ran) + 1
        job = Job(
            strategy=self._rule,
            cluster=setting.cluster,
            slices=setting.slices(batch),
            carried=[router.carried() for router in self._driver.routers],
            service=setting.service,
            size=setting.size,
        )
        begun, clock = time.time(), time.perf_counter()
        rows = run(self._session, job)
        merging = time.perf_counter()
        pieces = (piece.as_buffer() for piece in rows.column("states"))
        states = merge(from_payloads(pieces, setting.size))
        done = time.perf_counter()
        boundary = self._driver.batch(setting.keys(batch)).boundary
        self.ran.append(
            Ran(
                seconds=done - clock + boundary,
                boundary=boundary,
                merging=done - merging,
                source=self._driver.nbytes,
                **self._measured(rows, states, begun),
            )
        )
        return states

    def _measured(self, rows: pa.Table, states: States, begun: float) -> dict[str, Any]:
        setting = self._setting
        loads = {name: rows.column(name).to_numpy() for name in FOUND_ARROW.names if name != "states"}
        at, tuples = loads["worker"], loads["tuples"]
        held = np.bincount(at, pc.binary_length(rows.column("states")).to_numpy())
        workers = setting.sources if self._rule.combines else setting.cluster.workers
        times = np.asarray(setting.cluster.times)
        of_source = times[np.arange(setting.sources) * len(times) // setting.sources]
        load = np.bincount(at, tuples, workers) * (of_source if self._rule.combines else times)
        first = tuples > 0
        took = latencies(tuples[first], loads["begun"][first] - begun, loads["ended"][first] - begun)
        partials = int(held.sum()) // states.itemsize
        rows_combined = (
            partials if self._rule.combines else rows_if_combined(states["count"], setting.sources)
        )
        return {
            "span": float(loads["ended"][first].max() - loads["begun"][first].min()),
            "uneven": imbalance(load).relative,
            "sent": int(loads["received"].sum()),
            "partials": partials,
            "state": int(held.sum()),
            "most": int(held.max()),
            "p50": float(np.percentile(took, 50)),
            "p99": float(np.percentile(took, 99)),
            "figures": Figures(
                tuples=setting.tuples,
                groups=len(states),
                rows=rows_combined,
                cost=float(loads["busy"].sum()) / setting.tuples,
                state=states.itemsize,
                top=top_share(states["count"]),
                widest=1 / setting.sources,
                workers=setting.cluster.workers,
            ),
        }


def latencies(tuples: Floats, begun: Floats, ended: Floats) -> Floats:
    """When each tuple was done, if each worker took as long for any of its tuples; shape (all tuples,)."""
    nth = np.concatenate([np.arange(1, count + 1) / count for count in tuples])
    return np.repeat(begun, tuples) + np.repeat(ended - begun, tuples) * nth


def compare(
    session: SparkSession, chosen: Mapping[str, Strategy], setting: Setting, rounds: int, label: str
) -> dict[str, list[Ran]]:
    """What each contender measured, turn by turn. The first batch of each is checked and not kept.

    Raises Disagree if a contender's states are not those of the batch aggregated in one piece.
    """
    contenders = {name: Contender(session, rule, setting) for name, rule in chosen.items()}
    wanted = aggregate(setting.keys(1), setting.values(1), setting.size)
    for name, contender in contenders.items():
        if not same(contender(), wanted):
            raise Disagree(f"{label}, {name}: not the states of the batch in one piece")
    interleaved(contenders, rounds, label)
    return {name: contender.ran[1:] for name, contender in contenders.items()}


def seconds(measured: Mapping[str, list[Ran]]) -> dict[str, list[float]]:
    """As the arithmetic of rounds takes it."""
    return {name: [ran.seconds for ran in runs] for name, runs in measured.items()}


def middle(runs: list[Ran], field: str) -> float:
    """The median of that figure."""
    return float(statistics.median(getattr(ran, field) for ran in runs))
