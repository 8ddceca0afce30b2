"""Metrics that a team writes itself in Python: four functions on one series' state.

A file of `include/metrics` defines one or more metrics (`team.py` finds it; docs/metrics.md explains it)::

    class Longest(UserMetric[int]):
        name, measure = "longest", "text"

        def zero(self) -> int:
            return 0

        def add(self, state: int, values: pa.Array) -> int:
            return max(state, pc.max(pc.utf8_length(values)).as_py())

        def merge(self, a: int, b: int) -> int:
            return max(a, b)

        def result(self, state: int) -> int:
            return state
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, Literal, TypeVar

State = TypeVar("State")
#: A series' state is read and written whole for every batch that touches it.
MAX_STATE = 64 << 10


class UserMetric(ABC, Generic[State]):
    """A metric that a team writes.

    `merge` must be associative and commutative, with `zero` neutral. Nothing may depend on the time, on
    chance, or on how the lines came in batches, because both layers must get the same result.
    """

    name: ClassVar[str]
    #: text: `add` gets texts, and the measure may have either type. number: `add` gets floats, and the
    #: measure must be of numbers.
    measure: ClassVar[Literal["number", "text"]] = "number"
    #: Relative: how far the layers may differ because they merge in different orders.
    tolerance: ClassVar[float] = 1e-9

    @abstractmethod
    def zero(self) -> State:
        """The state of a series without a measure."""

    @abstractmethod
    def add(self, state: State, values: Any) -> State:
        """The state with a batch's measures of one series added.

        `values`: at least one measure, in a numpy array of float64 or a pyarrow array of strings.
        """

    @abstractmethod
    def merge(self, a: State, b: State) -> State:
        """Two states of one series as one."""

    @abstractmethod
    def result(self, state: State) -> float | None:
        """The metric's value: an integer, a finite float, or None if there is none."""

    def to_bytes(self, state: State) -> bytes:
        """The state as it is stored, in at most `MAX_STATE` bytes; JSON unless overridden."""
        return json.dumps(state).encode()

    def from_bytes(self, data: bytes) -> State:
        """A stored state."""
        state: State = json.loads(data)
        return state
