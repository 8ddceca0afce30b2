"""Distribution-aware grouping: a greedy rule routes hot keys, a hash routes all others.

Pacaci and Özsu 2018, "Distribution-aware stream partitioning for distributed stream processing systems"
(BeyondMR). A source counts keys by Space-Saving. A hot key's tuple goes to the worker with the best score. A
worker scores one point if it has the key already, less its load above the mean, in units of the mean. A
routing table remembers each hot key's workers; hashing the rest keeps it small.

If the load is weighted by b, the least loaded of the key's own workers wins unless another has less load by
more than mean / b. The rule is written that way here: `slack` is 1/b, how far a key's workers may be ahead,
in mean loads, before the key gets one more. Equal weights, as in the implementation of Zapridou et al. 2022
("Dalton"), mean slack = 1 and let a worker have twice the mean. The paper claims a near-optimal balance, so
the default is 0.1.

What the paper leaves open, and what is done here:

- a key is hot from a twentieth of a worker's fair share on. The limit has to be this small because only hot
  keys even out the imbalance of cold ones: on EDU with 64 workers a fifth leaves an imbalance of 0.35, a
  tenth 0.003. No key is hot before the source has seen as many tuples as its summary has counters, because
  shares of fewer tuples are noise and a key keeps every worker that it was given;
- a hot key's first worker is the one that its hash names, since it has the key's state already. Of equally
  loaded workers the first one, counted from the source's own place, takes the tuple;
- at a window's end keys that are no longer hot leave the table. The summary itself never forgets; `half_life`
  changes that. The loads never forget: they count all tuples that this source sent;
- once the table is full, further hot keys are treated as cold until the window ends.

DAG counts tuples and knows nothing of t_i.

Cost: O(1) a tuple, O(W) for a hot key's tuple. Memory: W * `counters` counters; W bits for each key of the
table. A cold key has one replica, a hot one up to W.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from sluice.grouping.base import Router, Targets, WorkerCluster
from sluice.grouping.candidates import Hashed, hashed
from sluice.grouping.compiled import kernel, step
from sluice.grouping.frequency.decay import FOREVER
from sluice.grouping.frequency.space_saving import SpaceSaving, estimate, observe
from sluice.grouping.frequency.table import NOWHERE, CounterTable, Places, find, put, remove, table
from sluice.grouping.hot_keys import HotKeys
from sluice.grouping.parameters import within
from sluice.grouping.routing import LoopRouter, memory, router_loop
from sluice.grouping.selection import EVERY
from sluice.runtime.arrays import Hashes, Ints

_WORD = 64


class Held(NamedTuple):
    """The routing table: each entry has a key, its slot, and its workers as bits.

    The first `size[0]` entries are taken.
    workers: bit w % 64 of word w // 64 is worker w; shape (room, words).
    """

    table: CounterTable
    keys: Hashes
    slots: Places
    workers: Hashes
    size: Ints


class Greedy(NamedTuple):
    """What the assignment and the selection share.

    sent: tuples to each worker. first: see `load.SourceLoad`.
    """

    sent: Ints
    first: int
    summary: SpaceSaving
    held: Held
    hashes: Hashed
    theta: float
    slack: float


@step
def _is_hot(greedy: Greedy, count: int) -> bool:
    total = greedy.summary.total[0]
    return count * len(greedy.sent) >= greedy.theta * total and total >= len(greedy.summary.counts)  # type: ignore[no-any-return]


@step
def _assign(greedy: Greedy, key: np.uint64, candidates: Targets) -> int:
    """Every worker for a hot key that has or gets a place in the table, else the hashed one."""
    hashed(greedy.hashes, key, 1, candidates)
    if not _is_hot(greedy, observe(greedy.summary, key)):
        return 1
    held = greedy.held
    slot = find(held.table, key)
    if held.table.entries[slot] == NOWHERE:
        entry = held.size[0]
        if entry == len(held.keys):
            return 1
        put(held.table, slot, key, entry, held.slots)
        held.keys[entry] = key
        held.workers[entry] = 0
        _hold(held, entry, np.int64(candidates[0]))  # type: ignore[arg-type]
        held.size[0] += 1
    return EVERY


@step
def _hold(held: Held, entry: int, worker: int) -> None:
    held.workers[entry, worker // _WORD] |= np.uint64(1) << np.uint64(worker % _WORD)


@step
def _holds(held: Held, entry: int, worker: int) -> bool:
    return held.workers[entry, worker // _WORD] >> np.uint64(worker % _WORD) & np.uint64(1) != 0  # type: ignore[no-any-return]


@step
def _greedy(candidates: Targets, count: int, greedy: Greedy, key: np.uint64) -> int:
    """The least loaded of the key's own workers, unless it is ahead by more than the slack.

    Then the least loaded of all workers takes the tuple and holds the key from now on.
    """
    if count != EVERY:
        return candidates[0]  # type: ignore[no-any-return]
    held, sent, workers = greedy.held, greedy.sent, len(greedy.sent)
    entry = np.int64(held.table.entries[find(held.table, key)])
    best = own = np.int64(NOWHERE)
    total = 0
    for i in range(greedy.first, greedy.first + workers):
        worker = i if i < workers else i - workers
        total += sent[worker]
        if best == NOWHERE or sent[worker] < sent[best]:
            best = np.int64(worker)
        if _holds(held, entry, worker) and (own == NOWHERE or sent[worker] < sent[own]):  # type: ignore[arg-type]
            own = np.int64(worker)
    if (sent[own] - sent[best]) * workers <= greedy.slack * total:
        return own  # type: ignore[return-value]
    _hold(held, entry, best)  # type: ignore[arg-type]
    return best  # type: ignore[return-value]


_route = router_loop(_assign, _greedy)


@kernel
def _drop_cold(greedy: Greedy) -> None:
    """Take keys that are not hot out of the table; the last ones move into their places."""
    held = greedy.held
    for entry in range(held.size[0] - 1, -1, -1):
        if _is_hot(greedy, estimate(greedy.summary, held.keys[entry])):
            continue
        remove(held.table, entry, held.slots)
        held.size[0] -= 1
        last = held.size[0]
        if entry != last:
            held.keys[entry], held.slots[entry] = held.keys[last], held.slots[last]
            held.workers[entry] = held.workers[last]
            held.table.entries[held.slots[entry]] = entry


class DagRouter(LoopRouter[Greedy, Greedy]):
    """A source's summary, routing table and load."""

    def __init__(self, strategy: DAG, cluster: WorkerCluster, source: int, seed: int) -> None:
        workers, room = cluster.workers, strategy.table
        greedy = Greedy(
            sent=np.zeros(workers, np.int64),
            first=source % workers,
            summary=strategy.summary(cluster, strategy.half_life),
            held=Held(
                table(room),
                np.zeros(room, np.uint64),
                np.zeros(room, np.int32),
                np.zeros((room, -(-workers // _WORD)), np.uint64),
                np.zeros(1, np.int64),
            ),
            hashes=Hashed.of(cluster, seed),
            theta=strategy.theta,
            slack=strategy.slack,
        )
        super().__init__(_route, greedy, greedy)

    def window(self, cluster: WorkerCluster) -> None:
        _drop_cold(self.state)

    @property
    def nbytes(self) -> int:
        return memory(self.state)


@dataclass(frozen=True)
class DAG(HotKeys):
    """The rule of Pacaci and Özsu.

    theta, counters: `HotKeys`.
    slack: how far a key's workers may be ahead, in mean loads, before it gets one more; 0 to 100.
    table: most keys in the routing table; 1 to 65,536.
    half_life: after how many tuples a count weighs half (`decay`); 1 to 2**40, which is never.
    """

    name: ClassVar[str] = "dag"

    theta: float = 0.05
    counters: int = 40
    slack: float = 0.1
    table: int = 4096
    half_life: int = FOREVER

    def __post_init__(self) -> None:
        super().__post_init__()
        within(self, "slack", 0, 100)
        within(self, "table", 1, 1 << 16)
        within(self, "half_life", 1, FOREVER)

    def router(self, cluster: WorkerCluster, *, source: int = 0, seed: int = 0) -> Router:
        return DagRouter(self, cluster, source, seed)
