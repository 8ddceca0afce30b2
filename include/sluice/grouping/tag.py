"""Time-aware grouping: a hot key's segments are drawn by the workers' speed, once a window.

Paper 001, section 3.2. t_i is worker i's mean completion time, measured by window; W is the paper's n.

Rebalance, at a window's end: by Space-Saving's counts of the window, keys are hot from 1/(5W) of the tuples
on. Each hot key is cut into segments of similar size, and each segment is drawn to worker i with probability
p_i = (1/t_i) / sum_j(1/t_j), formula (4). The workers of a key's segments are its row in the routing table.
Grouping: a hot key's candidates are its row, a cold key's are two hashed workers. The candidate with the
least t_i * m_i takes the tuple.

What the paper leaves open, and what is done here:

- a segment is at most as large as a key that is just hot, and a key has as few segments as that allows. So
  segments differ in size by less than a factor of two;
- a segment is drawn by a hash of its key and number, not by a random generator. So all sources draw the same,
  and while t_i and a key's frequency change little, its row changes little ("small changes", section 4.2);
- m_i and the summary start again with each window. Otherwise a changed t_i would weigh the past differently,
  and keys that were hot would stay hot;
- in the first window there is no table yet, and all keys are cold.

Drawing segments leaves some imbalance to chance: n segments of equal size fall on W workers as balls fall
into bins. The choice by t_i * m_i evens that out only where rows overlap.

Cost: O(1) a tuple and O(row) for a hot key's; the rebalance O(W log W). Memory: W * `counters` counters, at
most 10W segments, W loads a source; a hot key has up to W replicas, a cold one two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from sluice.grouping.base import Router, Targets, WorkerCluster
from sluice.grouping.candidates import Hashed, hashed
from sluice.grouping.compiled import kernel, step
from sluice.grouping.frequency.space_saving import SpaceSaving, clear, frequent, observe
from sluice.grouping.frequency.table import NOWHERE, CounterTable, find
from sluice.grouping.hashing import mix
from sluice.grouping.hot_keys import HotKeys, numbered
from sluice.grouping.load import SourceLoad, completion_times, retime
from sluice.grouping.routing import LoopRouter, router_loop
from sluice.grouping.selection import least_loaded
from sluice.runtime.arrays import Floats, Hashes, Ints

CHOICES = 2


class RoutingRows(NamedTuple):
    """The routing table, by the entries of `table`.

    The workers of entry e are workers[bounds[e] : bounds[e + 1]].
    """

    table: CounterTable
    bounds: Ints
    workers: Targets

    @classmethod
    def of(cls, keys: Hashes, segments: Ints, shares: Floats, seed: np.uint64) -> RoutingRows:
        """Draw each key's segments to workers with the probabilities `shares`, shape (workers,)."""
        return cls(numbered(keys), *_drawn(keys, segments, np.cumsum(shares), seed))


@kernel
def _drawn(keys: Hashes, segments: Ints, upto: Floats, seed: np.uint64) -> tuple[Ints, Targets]:
    """The bounds of the rows, and their workers, each once a row.

    upto: the cumulative probabilities.
    """
    bounds, workers = np.zeros(len(keys) + 1, np.int64), np.empty(segments.sum(), np.int32)
    row_of = np.full(len(upto), NOWHERE)  # the last row that a worker is in
    for row in range(len(keys)):
        end = bounds[row]
        hashed_key = mix(keys[row], seed)
        for segment in range(segments[row]):
            point = np.float64(mix(hashed_key, np.uint64(segment)) >> np.uint64(11)) * 2.0**-53
            worker = min(int(np.searchsorted(upto, point, side="right")), len(upto) - 1)
            if row_of[worker] != row:
                row_of[worker] = row
                workers[end] = worker
                end += 1
        bounds[row + 1] = end
    return bounds, workers[: bounds[-1]].copy()


class _State(NamedTuple):
    summary: SpaceSaving
    rows: RoutingRows
    hashes: Hashed


@step
def _assign(state: _State, key: np.uint64, candidates: Targets) -> int:
    observe(state.summary, key)
    rows = state.rows
    row = rows.table.entries[find(rows.table, key)]
    if row == NOWHERE:
        return hashed(state.hashes, key, CHOICES, candidates)
    start = rows.bounds[row]
    count = rows.bounds[row + 1] - start
    for i in range(count):
        candidates[i] = rows.workers[start + i]
    return count  # type: ignore[no-any-return]


_route = router_loop(_assign, least_loaded)


class TagRouter(LoopRouter[_State, SourceLoad]):
    """A source: its summary of the window, its table from the last window, its load t_i * m_i."""

    def __init__(self, strategy: TAG, cluster: WorkerCluster, source: int, seed: int) -> None:
        self._strategy = strategy
        # A separate hash, so that a key's first segment and its first candidate are drawn independently.
        self._seed = np.uint64(mix(np.uint64(seed % (1 << 64)), np.uint64(3)))
        nothing = RoutingRows.of(np.empty(0, np.uint64), np.empty(0, np.int64), cluster.shares, self._seed)
        state = _State(strategy.summary(cluster), nothing, Hashed.of(cluster, seed))
        super().__init__(_route, state, completion_times(cluster, source))

    def window(self, cluster: WorkerCluster) -> None:
        """Rebalance."""
        summary = self.state.summary
        share = self._strategy.theta / cluster.workers
        hot = frequent(summary, share)
        segments = np.ceil(hot.estimates / (share * max(1, summary.total[0]))).astype(np.int64)
        self.state = self.state._replace(rows=RoutingRows.of(hot.keys, segments, cluster.shares, self._seed))
        clear(summary)
        retime(self.load, cluster)
        self.load.sent[:] = 0


@dataclass(frozen=True)
class TAG(HotKeys):
    """Paper 001's rule; its parameters are those of `HotKeys`."""

    name: ClassVar[str] = "tag"

    def router(self, cluster: WorkerCluster, *, source: int = 0, seed: int = 0) -> Router:
        return TagRouter(self, cluster, source, seed)
