"""The one loop over a batch's tuples, and the router that runs it.

The loop is made of a strategy's assignment and selection. For each tuple the assignment writes which workers
may take the key, the selection chooses one of them, and the source counts what it sent there. Both are
compiled into the loop; a tuple costs no call.
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
    """What a selection chooses by: at least the tuples sent to each worker, shape (workers,)."""

    @property
    def sent(self) -> Ints: ...


State = TypeVar("State")
View = TypeVar("View", bound=Sent)

#: (state, key, candidates) -> how many workers may take the key, written to `candidates`; or
#: `selection.EVERY`.
Assignment = Callable[[State, np.uint64, Targets], int]
#: (candidates, how many, load, key) -> the worker that takes the tuple.
Selection = Callable[[Targets, int, View, np.uint64], int]
#: (keys, targets, state, load): fills targets.
Loop = Callable[[Hashes, Targets, State, View], None]


def _assign(state: Any, key: np.uint64, candidates: Targets) -> int:
    """In a loop this name stands for the strategy's own assignment (`router_loop`)."""
    raise NotImplementedError


def _select(candidates: Targets, count: int, load: Any, key: np.uint64) -> int:
    """In a loop this name stands for the strategy's own selection."""
    raise NotImplementedError


def _route(keys: Hashes, targets: Targets, state: Any, load: Any) -> None:
    """The code of all loops; each has its own functions for `_assign` and `_select`."""
    candidates = np.empty(len(load.sent), np.int32)
    for i in range(len(keys)):
        count = _assign(state, keys[i], candidates)
        worker = _select(candidates, count, load, keys[i])
        load.sent[worker] += 1
        targets[i] = worker


def router_loop(assign: Assignment[State], select: Selection[View]) -> Loop[State, View]:
    """The loop for one assignment and one selection, two steps (`compiled`).

    It is compiled on first use. The two steps are globals of the loop, not arguments or variables of a
    closure. In those, numba names a function by a number that is new in each process, so it would never find
    the loop's code on disk.
    """
    names = {"__name__": __name__, "np": np, "_assign": assign, "_select": select}
    loop = FunctionType(_route.__code__, names, "route")
    loop.__qualname__ = "route_" + "_".join(
        f"{part.__module__.rpartition('.')[2]}_{part.__name__}" for part in (assign, select)
    )
    return kernel(loop)


class LoopRouter(Router, Generic[State, View]):
    """A router that consists of a loop, its assignment's state and its view of the load.

    state, load: NamedTuples of arrays (and of such NamedTuples), which the loop changes in place.
    """

    def __init__(self, loop: Loop[State, View], state: State, load: View) -> None:
        self._loop, self.state, self.load = loop, state, load

    def route(self, keys: Hashes) -> Targets:
        # Arrow's arrays are read-only, which is another type to numba. A copy costs less than a second loop.
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
