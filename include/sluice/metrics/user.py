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
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np
import pyarrow as pa

from sluice.metrics.base import Accumulator, Batch, Columns, Metric, Results, first_line
from sluice.runtime.arrays import Ints

State = TypeVar("State")
#: A series' state is read and written whole for every batch that touches it.
MAX_STATE = 64 << 10
_INT64 = 1 << 63


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


class UserMetricFailed(RuntimeError):
    """A team's own metric raised an error, or returned something that it must not."""


class UserAccumulator(Accumulator):
    """A team's metric as an accumulator of one binary column; null without any measure."""

    def __init__(self, metric: UserMetric[Any], file: str) -> None:
        self.name = f"user_{metric.name}"
        self.columns = {self.name: pa.binary()}
        self.metric, self._file = metric, file

    def add(self, batch: Batch) -> dict[str, pa.Array]:
        text = self.metric.measure == "text"
        present = batch.of(batch.measured.present)
        if text:
            present = present & batch.of(batch.text.present)
        groups = batch.groups[present]
        order, bounds = _sorted(groups, batch.size)
        values: Any
        if text:
            codes = batch.of(batch.text.codes)[present][order]
            values = batch.text.distinct.take(pa.array(codes))
        else:
            values = batch.of(batch.numbers.values)[present][order]
        states: list[bytes | None] = [None] * batch.size
        for group in np.flatnonzero(np.diff(bounds)).tolist():
            own = values[bounds[group] : bounds[group + 1]]
            with self.guarded("add"):
                states[group] = self._stored(self.metric.add(self.metric.zero(), own))
        return {self.name: pa.array(states, pa.binary())}

    def merge(self, columns: Columns, groups: Ints, size: int) -> dict[str, pa.Array]:
        given = columns[self.name].to_pylist()
        states: list[Any] = [None] * size
        for row in np.argsort(groups, kind="stable").tolist():
            if given[row] is not None:
                states[groups[row]] = [*(states[groups[row]] or []), given[row]]
        return {self.name: pa.array([self._merged(own) for own in states], pa.binary())}

    def _merged(self, own: list[bytes] | None) -> bytes | None:
        if own is None:
            return None
        if len(own) == 1:
            return own[0]
        with self.guarded("merge"):
            state = self.metric.from_bytes(own[0])
            for other in own[1:]:
                state = self.metric.merge(state, self.metric.from_bytes(other))
            return self._stored(state)

    def _stored(self, state: Any) -> bytes:
        data = self.metric.to_bytes(state)
        if not isinstance(data, bytes):
            raise TypeError(f"to_bytes returned {type(data).__name__}, bytes are expected")
        if len(data) > MAX_STATE:
            raise ValueError(
                f"a state of {len(data)} bytes, at most {MAX_STATE} are kept: keep less of a series"
            )
        return data

    @contextmanager
    def guarded(self, doing: str) -> Iterator[None]:
        """Turn any error of the team's code into UserMetricFailed, which names the metric."""
        try:
            yield
        except (Exception, SystemExit) as error:  # sys.exit() would end the worker, again and again
            where = f"metric {self.metric.name!r} of {self._file} failed in {doing}"
            raise UserMetricFailed(f"{where}: {type(error).__name__}: {error}") from error


class Adapter(Metric):
    """A team's metric as a `Metric` of the registry."""

    def __init__(self, metric: UserMetric[Any], file: str) -> None:
        self._accumulator = UserAccumulator(metric, file)
        self.name, self.tolerance = metric.name, metric.tolerance
        self.measure = "number" if metric.measure == "number" else "any"
        self.accumulators = (self._accumulator,)

    @property
    def about(self) -> str:
        return first_line(type(self._accumulator.metric))

    def results(self, columns: Columns) -> Results:
        """No value for a series without a measure, or if the metric returns None."""
        stored = columns[self._accumulator.name].to_pylist()
        values, integers = np.full(len(stored), np.nan), np.zeros(len(stored), np.int64)
        exact = np.zeros(len(stored), bool)
        metric = self._accumulator.metric
        for row, data in enumerate(stored):
            if data is None:
                continue
            with self._accumulator.guarded("result"):
                found = _number(metric.result(metric.from_bytes(data)))
            if found is not None:
                values[row] = found
                if isinstance(found, int) and -_INT64 <= found < _INT64:
                    integers[row], exact[row] = found, True
        return Results(values, integers, exact)


def _number(found: object) -> int | float | None:
    if found is None:
        return None
    if isinstance(found, Integral) and not isinstance(found, bool):
        return int(found)
    if isinstance(found, Real) and not isinstance(found, bool):
        if math.isinf(value := float(found)):
            raise ValueError("result is infinite: return a finite number, or None where there is none")
        return None if math.isnan(value) else value
    raise TypeError(f"result is {type(found).__name__}, a number or None is expected")


def _sorted(groups: Ints, size: int) -> tuple[Ints, Ints]:
    """The rows in the order of their groups (stable), and where each group's begin (size + 1)."""
    counts = np.bincount(groups, minlength=size)
    return np.argsort(groups, kind="stable"), np.append(0, np.cumsum(counts))
