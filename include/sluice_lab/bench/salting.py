"""Salting as users do it by hand: add one of a few numbers to a key, and remove it later.

The numbers take turns, and a later stage removes them. All keys are salted, because the author of the query
does not know which will be hot. Tuples are sent by key grouping of the salted key, so a key has up to `salts`
replicas, and even the hottest key can use the capacity of at most `salts` workers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from sluice.grouping.base import Router, Strategy, Targets, WorkerCluster
from sluice.grouping.candidates import Hashed, hashed
from sluice.grouping.compiled import step
from sluice.grouping.load import own_counts
from sluice.grouping.parameters import within
from sluice.grouping.routing import LoopRouter, router_loop
from sluice.grouping.selection import only
from sluice.runtime.arrays import Ints

_APART = np.uint64(0xD1B54A32D192ED03)  # odd, so that no two salted forms of a key are equal


class _Salts(NamedTuple):
    """turn: the next tuple's salt, shape (1,)."""

    hashes: Hashed
    salts: int
    turn: Ints


@step
def _salted(state: _Salts, key: np.uint64, candidates: Targets) -> int:
    salt = state.turn[0]
    state.turn[0] = (salt + 1) % state.salts
    return hashed(state.hashes, key + np.uint64(salt) * _APART, 1, candidates)


_route = router_loop(_salted, only)


@dataclass(frozen=True)
class Salting(Strategy):
    """Key grouping of salted keys. salts: how many keys are made of one, 1 to 65,536."""

    name: ClassVar[str] = "salted"

    salts: int = 8

    def __post_init__(self) -> None:
        within(self, "salts", 1, 1 << 16)

    def router(self, cluster: WorkerCluster, *, source: int = 0, seed: int = 0) -> Router:
        state = _Salts(Hashed.of(cluster, seed), self.salts, np.full(1, source % self.salts))
        return LoopRouter(_route, state, own_counts(cluster, source))
