"""The one loop over a batch's tuples, made of a strategy's assignment and selection, and its router.

For each tuple the assignment writes which workers may take the key, the selection chooses one of them, and
the source counts what it sent there. Both are compiled into the loop; a tuple costs no call.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from sluice.grouping.base import Router, Targets
from sluice.grouping.compiled import kernel
from sluice.runtime.arrays import Hashes, Ints


class Sent(Protocol):
    """What a selection chooses by has at least the tuples sent to each worker, shape (workers,)."""

    @property
    def sent(self) -> Ints: ...


State = TypeVar("State")
View = TypeVar("View", bound=Sent)

#: (state, key, candidates) -> how many workers may take the key, now in `candidates`; or `selection.EVERY`.
Assignment = Callable[[State, np.uint64, Targets], int]
#: (candidates, how many, load, key) -> the worker that takes the tuple.
Selection = Callable[[Targets, int, View, np.uint64], int]
#: (keys, targets, state, load): fills targets.
Loop = Callable[[Hashes, Targets, State, View], None]


def _assign(state: Any, key: np.uint64, candidates: Targets) -> int:
    """In a loop the strategy's own assignment has this name (`router_loop`)."""
    raise NotImplementedError


def _select(candidates: Targets, count: int, load: Any, key: np.uint64) -> int:
    """In a loop the strategy's own selection has this name."""
    raise NotImplementedError


def _route(keys: Hashes, targets: Targets, state: Any, load: Any) -> None:
    """What all loops have in common; their names for `_assign` and `_select` differ."""
    candidates = np.empty(len(load.sent), np.int32)
    for i in range(len(keys)):
        count = _assign(state, keys[i], candidates)
        worker = _select(candidates, count, load, keys[i])
        load.sent[worker] += 1
        targets[i] = worker


def router_loop(assign: Assignment[State], select: Selection[View]) -> Loop[State, View]:
    """The loop for one assignment and one selection, two steps (`compiled`). Compiled on first use.

    They are the loop's globals, not arguments or variables of a closure: numba names a function in those by a
    number that is new in each process, and so would never find the loop's code on disk.
    """
    names = {"__name__": __name__, "np": np, "_assign": assign, "_select": select}
    loop = FunctionType(_route.__code__, names, "route")
    loop.__qualname__ = "route_" + "_".join(
        f"{part.__module__.rpartition('.')[2]}_{part.__name__}" for part in (assign, select)
    )
    return kernel(loop)


class LoopRouter(Router, Generic[State, View]):
    """A router that is a loop, the state of its assignment and its view of the workers' load.

    state, load: NamedTuples of arrays (and of such NamedTuples), which the loop changes in place.
    """

    def __init__(self, loop: Loop[State, View], state: State, load: View) -> None:
        self._loop, self.state, self.load = loop, state, load

    def route(self, keys: Hashes) -> Targets:
        # Arrow lends arrays that may not be written, for numba another type: a copy is cheaper than a loop.
        keys = np.require(keys, np.uint64, ["C", "W"])
        targets = np.empty(len(keys), np.int32)
        self._loop(keys, targets, self.state, self.load)
        return targets

    @property
    def nbytes(self) -> int:
        return memory(self.state) + memory(self.load)


def memory(state: object) -> int:
    """Bytes of all arrays in NamedTuples of NamedTuples."""
    if isinstance(state, np.ndarray):
        return state.nbytes
    return sum(memory(part) for part in state) if isinstance(state, tuple) else 0
