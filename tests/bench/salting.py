"""Salting as users do it by hand: a key gets one of a few numbers, in turn, and a later stage takes them off.

All keys are salted, because the author of the query does not know which will be hot. What is sent is key
grouping's of the salted key, so a key has up to `salts` replicas, and the hottest one the load of
`salts` ordinary workers at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from sluice.grouping.base import Cluster, Router, Strategy, Targets
from sluice.grouping.candidates import Hashed, hashed
from sluice.grouping.compiled import step
from sluice.grouping.load import own_counts
from sluice.grouping.parameters import within
from sluice.grouping.routing import LoopRouter, router_loop
from sluice.grouping.selection import only
from sluice.runtime.arrays import Ints

_APART = np.uint64(0xD1B54A32D192ED03)  # odd: no two salts of a key are alike


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
    """salts: how many keys are made of one, 1 to 65,536."""

    name: ClassVar[str] = "salted"

    salts: int = 8

    def __post_init__(self) -> None:
        within(self, "salts", 1, 1 << 16)

    def router(self, cluster: Cluster, *, source: int = 0, seed: int = 0) -> Router:
        state = _Salts(Hashed.of(cluster, seed), self.salts, np.full(1, source % self.salts))
        return LoopRouter(_route, state, own_counts(cluster, source))
