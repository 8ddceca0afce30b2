"""Distribution-aware key grouping: learn hot keys and buckets, then map them to workers.

Rivetti, Querzoni, Anceaume, Busnel, Sericola 2015, "Efficient key grouping for near-optimal load balancing
in stream processing systems" (DEBS), with the authors' code (github.com/rivetti/dkg_storm). Learning:
Space-Saving with error theta/2 counts keys, and an array counts the tuples of each of W * `buckets` hash
buckets. Building: each key with a share of theta or more is one part, and each bucket of cold keys is one
part. The parts go to workers, the largest first, each to the worker with the least load (`packing`). After
that a tuple is one look-up.

A key stays whole, so a key with more than a worker's share of the tuples overloads its worker. This limits
DKG's balance.

What differs from the paper, or is left open there:

- learning takes the first window. The tuples of that window are routed by hash; the authors' code drops them;
- all sources must map alike, or keys would not stay whole. So their summaries are added up at the boundary,
  and one mapping is made for all;
- the mapping then stays for good, as published. `once=False` makes a new one after each window, from that
  window alone;
- theta is in units of a worker's fair share (`HotKeys`), by default 1/(5W) of all tuples; in the paper it is
  an independent number;
- Space-Saving may count a hot key too high; no more is taken from a bucket than the bucket has.

DKG counts tuples and knows nothing of t_i.

Cost: O(1) a tuple. Memory: W * `buckets` numbers and at most W / theta keys; while learning, another
W * `counters` counters. One replica a key, except for keys that a new mapping moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from sluice.grouping.base import Counts, Router, Targets, WorkerCluster
from sluice.grouping.candidates import Hashed
from sluice.grouping.compiled import kernel, step
from sluice.grouping.frequency.space_saving import SpaceSaving, clear, frequent, observe, space_saving
from sluice.grouping.frequency.table import NOWHERE, CounterTable, find
from sluice.grouping.hashing import mix, worker_of
from sluice.grouping.hot_keys import HotKeys, numbered
from sluice.grouping.load import SourceLoad, own_counts
from sluice.grouping.packing import pack_whole
from sluice.grouping.parameters import within
from sluice.grouping.routing import LoopRouter, router_loop
from sluice.grouping.selection import only
from sluice.runtime.arrays import Hashes, Ints


class Mapping(NamedTuple):
    """The workers of the hot keys and of the buckets.

    hot: by the keys' entries in `table`. buckets: shape (buckets,).
    """

    table: CounterTable
    hot: Targets
    buckets: Targets


class _State(NamedTuple):
    """What a source has learnt, and how it routes.

    learning: whether keys are counted. seen: tuples by bucket while learning.
    """

    learning: bool
    summary: SpaceSaving
    seen: Ints
    mapping: Mapping
    hashes: Hashed


@step
def _bucket(state: _State, key: np.uint64) -> int:
    return worker_of(mix(key, state.hashes.seed), len(state.mapping.buckets))


@step
def _assign(state: _State, key: np.uint64, candidates: Targets) -> int:
    bucket = _bucket(state, key)
    if state.learning:
        observe(state.summary, key)
        state.seen[bucket] += 1
    mapping = state.mapping
    entry = mapping.table.entries[find(mapping.table, key)]
    candidates[0] = mapping.buckets[bucket] if entry == NOWHERE else mapping.hot[entry]
    return 1


_route = router_loop(_assign, only)


@kernel
def _take_out(state: _State, seen: Ints, keys: Hashes, counts: Ints) -> None:
    """Take the hot keys' tuples out of their buckets."""
    for i in range(len(keys)):
        bucket = _bucket(state, keys[i])
        seen[bucket] = max(0, seen[bucket] - counts[i])


class DkgRouter(LoopRouter[_State, SourceLoad]):
    """A source's summaries while it learns, and the mapping that all sources share."""

    def __init__(self, strategy: DKG, cluster: WorkerCluster, source: int, seed: int) -> None:
        self.strategy = strategy
        size = cluster.workers * strategy.buckets
        # Each worker's buckets are adjacent, so this is key grouping until there is a mapping.
        nothing = Mapping(
            numbered(np.empty(0, np.uint64)),
            np.empty(0, np.int32),
            (np.arange(size) // strategy.buckets).astype(np.int32),
        )
        state = _State(
            learning=True,
            summary=strategy.summary(cluster),
            seen=np.zeros(size, np.int64),
            mapping=nothing,
            hashes=Hashed.of(cluster, seed),
        )
        super().__init__(_route, state, own_counts(cluster, source))

    def window(self, cluster: WorkerCluster) -> None:
        """Map what this source alone has learnt."""
        build([self], cluster)

    def adopt(self, mapping: Mapping) -> None:
        """Route by a mapping, and drop what was learnt for it."""
        self.state = self.state._replace(mapping=mapping)
        if self.strategy.once:
            self.state = self.state._replace(
                learning=False, summary=space_saving(1), seen=np.empty(0, np.int64)
            )
        else:
            clear(self.state.summary)
            self.state.seen[:] = 0


def build(routers: Sequence[DkgRouter], cluster: WorkerCluster) -> None:
    """Make one mapping for all routers from what those that are still learning have learnt."""
    states = [router.state for router in routers if router.state.learning]
    seen: Ints = np.sum([state.seen for state in states], axis=0, dtype=np.int64)
    if not states or not seen.any():
        return
    found = [frequent(state.summary, 0.0) for state in states]
    keys, codes = np.unique(np.concatenate([each.keys for each in found]), return_inverse=True)
    counts = np.zeros(len(keys), np.int64)
    np.add.at(counts, codes, np.concatenate([each.estimates for each in found]))
    hot = counts * cluster.workers >= routers[0].strategy.theta * seen.sum()
    keys, counts = keys[hot], counts[hot]
    _take_out(states[0], seen, keys, counts)
    sizes = np.concatenate([counts, seen]).astype(np.float64)
    alike, load = np.ones(cluster.workers), np.zeros(cluster.workers)
    targets = pack_whole(sizes, alike, load).astype(np.int32)
    mapping = Mapping(numbered(keys), targets[: len(keys)].copy(), targets[len(keys) :].copy())
    for router in routers:
        router.adopt(mapping)


@dataclass(frozen=True)
class DKG(HotKeys):
    """The rule of Rivetti et al.

    theta, counters: `HotKeys`.
    buckets: hash buckets a worker; 1 to 256.
    once: whether the first mapping stays for good.
    """

    name: ClassVar[str] = "dkg"

    buckets: int = 16
    once: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "buckets", 1, 256)

    def router(self, cluster: WorkerCluster, *, source: int = 0, seed: int = 0) -> Router:
        return DkgRouter(self, cluster, source, seed)

    def boundary(self, routers: Sequence[Router], cluster: WorkerCluster, batch: Counts) -> None:
        build([router for router in routers if isinstance(router, DkgRouter)], cluster)
