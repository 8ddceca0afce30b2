"""A team's code where it runs: a file is loaded, and a metric's functions are called for each series.

This is the part inside the process of its own that runs it (`team_process`). Whatever the code raises becomes
TeamCodeFailed.
"""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral, Real
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.metrics.base import first_line
from sluice.metrics.user import MAX_STATE, UserMetric

NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_MEASURES = ("number", "text")
_INT64 = 1 << 63
#: What `resulted` returns: a row a series.
RESULTS = pa.schema([("value", pa.float64()), ("integer", pa.int64())])


class BadMetric(ValueError):
    """A file of the folder does not define metrics as it must."""


class TeamCodeFailed(RuntimeError):
    """A team's code raised an error, returned what it must not, or did not end."""


@dataclass(frozen=True)
class MetricDescription:
    """What the platform knows of a team's metric, so that it need not run its code."""

    name: str
    measure: str
    tolerance: float
    about: str
    class_name: str


def defined(file: str, source: str) -> list[UserMetric[Any]]:
    """The metrics that a file defines. Raises what the file raises, or BadMetric."""
    module = ModuleType(f"sluice_team_metrics.{file.removesuffix('.py')}")
    module.__file__ = file
    sys.modules[module.__name__] = module  # dataclasses look their module up there
    exec(compile(source, file, "exec"), module.__dict__)  # noqa: S102 - the team's own code, from its checkout
    classes = [
        each
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, UserMetric) and each.__module__ == module.__name__
    ]
    metrics = [each() for each in classes if not inspect.isabstract(each)]
    if not metrics:
        half = [f"{c.__name__} lacks {', '.join(sorted(c.__abstractmethods__))}" for c in classes]
        raise BadMetric(
            "; ".join(half) or "no subclass of UserMetric is defined here: define one, or move the file"
        )
    return metrics


def described(metrics: list[UserMetric[Any]]) -> list[MetricDescription]:
    """What a file's metrics are. Raises BadMetric, and what their `zero` and `merge` raise."""
    names = [getattr(metric, "name", None) for metric in metrics]
    found: list[MetricDescription] = []
    for metric, name in zip(metrics, names, strict=True):
        where = f"class {type(metric).__name__}"
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise BadMetric(f"{where}: name {name!r}: use a-z, 0-9 and _, 40 at most, a letter first")
        if names.count(name) > 1:
            raise BadMetric(already(type(metric).__name__, name))
        if metric.measure not in _MEASURES:
            raise BadMetric(f"{where}: measure {metric.measure!r}: use number or text")
        tolerance = metric.tolerance
        if isinstance(tolerance, bool) or not isinstance(tolerance, Real) or not 0 <= tolerance < math.inf:
            raise BadMetric(f"{where}: tolerance {tolerance!r}: use a number from 0 on, e.g. 1e-9")
        zero = metric.from_bytes(metric.to_bytes(metric.zero()))
        metric.to_bytes(metric.merge(zero, metric.zero()))
        about = first_line(type(metric))
        found.append(MetricDescription(name, metric.measure, float(tolerance), about, type(metric).__name__))
    return found


def already(class_name: str, name: str) -> str:
    """That two metrics would have the same name."""
    return f"class {class_name}: there is a metric {name!r} already: choose another name"


def added(metric: UserMetric[Any], values: pa.LargeListArray) -> pa.Array:
    """The state (binary) of each list of measures. Raises TeamCodeFailed."""
    flat, bounds = values.values, values.offsets.to_pylist()
    # A copy: what Arrow reads cannot be written, and a metric may sort its measures in place.
    own = np.array(flat) if metric.measure == "number" else flat
    with guarded("add"):
        states = [
            _stored(metric, metric.add(metric.zero(), own[begin:end])) for begin, end in pairwise(bounds)
        ]
    return pa.array(states, pa.binary())


def merged(metric: UserMetric[Any], states: pa.LargeListArray) -> pa.Array:
    """The state (binary) of each list of states, merged into one. Raises TeamCodeFailed."""
    flat, bounds = states.values.to_pylist(), states.offsets.to_pylist()
    found = []
    with guarded("merge"):
        for begin, end in pairwise(bounds):
            state = metric.from_bytes(flat[begin])
            for other in flat[begin + 1 : end]:
                state = metric.merge(state, metric.from_bytes(other))
            found.append(_stored(metric, state))
    return pa.array(found, pa.binary())


def resulted(metric: UserMetric[Any], states: pa.Array) -> pa.Table:
    """The result (RESULTS) of each state; `integer` where it is one. Raises TeamCodeFailed."""
    values, integers = list[float | None](), list[int | None]()
    with guarded("result"):
        for data in states.to_pylist():
            found = _number(metric.result(metric.from_bytes(data)))
            values.append(None if found is None else float(found))
            whole = isinstance(found, int) and -_INT64 <= found < _INT64
            integers.append(found if whole and isinstance(found, int) else None)
    return pa.table([pa.array(values, pa.float64()), pa.array(integers, pa.int64())], schema=RESULTS)


@contextmanager
def guarded(doing: str) -> Iterator[None]:
    """Turn any error of the team's code into TeamCodeFailed, even those that would end the process.

    A lack of memory stays one.
    """
    try:
        yield
    except MemoryError:
        raise
    except BaseException as error:
        raise TeamCodeFailed(f"failed in {doing}: {type(error).__name__}: {error}") from error


def to_ipc(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    return sink.getvalue()


def from_ipc(data: bytearray) -> pa.Array:
    """The one column of a table, in one piece."""
    column = pa.ipc.open_stream(data).read_all().combine_chunks().column(0)
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _stored(metric: UserMetric[Any], state: Any) -> bytes:
    data = metric.to_bytes(state)
    if not isinstance(data, bytes):
        raise TypeError(f"to_bytes returned {type(data).__name__}, bytes are expected")
    if len(data) > MAX_STATE:
        raise ValueError(f"a state of {len(data)} bytes, at most {MAX_STATE} are kept: keep less of a series")
    return data


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


#: What can be asked of a metric, by name.
ASKS: dict[str, Callable[[UserMetric[Any], Any], pa.Array | pa.Table]] = {
    "add": added,
    "merge": merged,
    "result": resulted,
}
