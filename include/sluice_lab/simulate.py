"""Routing without a network: what a strategy does with a stream's batches, and its cost.

The tuples of a batch come to the sources in turn, and each source routes its own. At the boundary the
strategy sees what the batch counted. Nothing is queued here (see `queueing`), and nothing is computed from
the tuples: load is their number times t_i.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from sluice.grouping.base import Counts, Strategy, Targets, WorkerCluster
from sluice.grouping.imbalance import Imbalance, imbalance, loads, makespan
from sluice.runtime.arrays import Floats, Hashes, Ints
from sluice_lab.state import Pairs

Number = TypeVar("Number", bound=np.generic)

MOST_SOURCES = 1_000
A_KEY = 16  # bytes: a count and a sum
KIB = 1024
_WARM_UP = 64  # tuples: enough to compile every kernel


@dataclass(frozen=True)
class Routed:
    """What was sent to the workers, in order.

    These are tuples, or partial results if the strategy combines.
    """

    keys: Hashes
    targets: Targets
    seconds: float  # of processor time that routing took, all sources together
    boundary: float  # seconds between this batch and the next


class Simulation:
    """A strategy in use: its sources' routers keep what they learn from batch to batch."""

    def __init__(
        self, strategy: Strategy, cluster: WorkerCluster, *, sources: int = 1, seed: int = 0
    ) -> None:
        """Raises ValueError unless there are 1 to 1,000 sources."""
        if not 1 <= sources <= MOST_SOURCES:
            raise ValueError(f"sources: {sources}; there must be 1 to {MOST_SOURCES:,}")
        self.strategy, self.cluster = strategy, cluster
        self.routers = [strategy.router(cluster, source=s, seed=seed) for s in range(sources)]

    def batch(self, keys: Hashes) -> Routed:
        """Route a batch and let the strategy look back on it."""
        sources = len(self.routers)
        shares = [np.ascontiguousarray(keys[s::sources]) for s in range(sources)]
        began = time.thread_time()
        if self.strategy.combines:
            shares = [np.unique(share) for share in shares]
        routed = [router.route(share) for router, share in zip(self.routers, shares, strict=True)]
        seconds = time.thread_time() - began
        counted = Counts.of(keys)
        began = time.thread_time()
        self.strategy.boundary(self.routers, self.cluster, counted)
        boundary = time.thread_time() - began
        return Routed(_in_turn(shares), _in_turn(routed), seconds, boundary)

    @property
    def nbytes(self) -> int:
        """The memory of the source that has most, in bytes."""
        return max(router.nbytes for router in self.routers)


def _in_turn(shares: Sequence[npt.NDArray[Number]]) -> npt.NDArray[Number]:
    """The sources' sequences as one: the first of each, the second of each, and so on."""
    turns = np.concatenate([np.arange(len(share)) for share in shares])
    return np.concatenate(shares)[np.argsort(turns, kind="stable")]


@dataclass(frozen=True)
class SimulatedBatch:
    """One batch, measured.

    batch: its number, from 1. tuples: how many came. keys: how many distinct keys they had. total: tuples so
    far.
    relative, share, absolute: imbalance of what was sent (`grouping.imbalance`). makespan: of the same, over
    its optimum.
    replicas: pairs of worker and key over keys, in this batch. held: the same in all batches so far.
    sent: rows that went to workers, over tuples; 1 unless the strategy combines. partials: rows that the
    second stage merges.
    ns: time to route a tuple, including combining. boundary_ms: time that the strategy takes before the next
    batch.
    source_kib: memory of the source that has most. state_kib: memory of the worker whose keys take most, in
    all batches so far.
    """

    batch: int
    tuples: int
    keys: int
    total: int
    relative: float
    share: float
    absolute: float
    makespan: float
    replicas: float
    held: float
    sent: float
    partials: int
    ns: float
    boundary_ms: float
    source_kib: float
    state_kib: float


@dataclass(frozen=True)
class SimulatedRun:
    """A whole run.

    load: by worker, all batches together. state: keys that each worker has seen. last: the last batch as it
    was sent.
    """

    batches: tuple[SimulatedBatch, ...]
    load: Floats
    state: Ints
    last: Routed

    @property
    def imbalance(self) -> Imbalance:
        """Of all batches together."""
        return imbalance(self.load)


def simulate(
    strategy: Strategy,
    batches: Iterable[Hashes],
    cluster: WorkerCluster,
    *,
    sources: int = 1,
    seed: int = 0,
    a_key: int = A_KEY,
) -> SimulatedRun:
    """Route the batches one after the other and measure each.

    sources: 1 to 1,000. a_key: bytes of state that a key takes at a worker, >= 0. Raises ValueError beyond
    these bounds, if there is no batch, and if a batch is empty.
    """
    if a_key < 0:
        raise ValueError(f"a_key: {a_key} bytes; a key's state takes 0 or more")
    _warm_up(strategy, cluster)
    simulation, meter = Simulation(strategy, cluster, sources=sources, seed=seed), _Meter(cluster, a_key)
    measured: list[SimulatedBatch] = []
    routed = None
    for keys in batches:
        if not len(keys):
            raise ValueError(f"batch {len(measured) + 1} has no tuple")
        routed = simulation.batch(keys)
        measured.append(meter.read(keys, routed, simulation.nbytes))
    if routed is None:
        raise ValueError("there is nothing to simulate: no batch was given")
    return SimulatedRun(tuple(measured), meter.load, meter.held.by_worker, routed)


class _Meter:
    """Measures each batch, and adds up what lasts longer than one batch."""

    def __init__(self, cluster: WorkerCluster, a_key: int) -> None:
        self._cluster, self._a_key = cluster, a_key
        self.load = np.zeros(cluster.workers)
        self.held, self._keys = Pairs(cluster.workers), Pairs(1)
        self._batches = self._tuples = 0

    def read(self, keys: Hashes, routed: Routed, nbytes: int) -> SimulatedBatch:
        load = loads(routed.targets, self._cluster)
        pairs, distinct = Pairs(self._cluster.workers), Pairs(1)
        for held in (pairs, self.held):
            held.add(routed.keys, routed.targets)
        for seen in (distinct, self._keys):
            seen.add(keys, np.zeros(len(keys), np.int32))
        self.load += load
        self._batches += 1
        self._tuples += len(keys)
        uneven = imbalance(load)
        return SimulatedBatch(
            batch=self._batches,
            tuples=len(keys),
            keys=len(distinct),
            total=self._tuples,
            relative=uneven.relative,
            share=uneven.share,
            absolute=uneven.absolute,
            makespan=makespan(routed.targets, self._cluster),
            replicas=len(pairs) / len(distinct),
            held=len(self.held) / len(self._keys),
            sent=len(routed.keys) / len(keys),
            partials=len(pairs),
            ns=routed.seconds / len(keys) * 1e9,
            boundary_ms=routed.boundary * 1e3,
            source_kib=nbytes / KIB,
            state_kib=int(self.held.by_worker.max()) * self._a_key / KIB,
        )


def _warm_up(strategy: Strategy, cluster: WorkerCluster) -> None:
    """Compile what the strategy needs, so that the first batch measured is like the others."""
    Simulation(strategy, cluster).batch(np.arange(_WARM_UP, dtype=np.uint64))
