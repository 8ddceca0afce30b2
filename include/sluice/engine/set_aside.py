"""Take out a task that fails, so that the others go on.

An error of a task (a team's metric that raises, more series than `limits.series`) is caught where the work is
done for that task alone. The task's version is *set aside*: for every partition, the batch is counted as if
the version had been paused before the batch, and the task shows the error. If a task fails anywhere in a
batch, nothing of that batch is counted for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from polars.exceptions import PanicException

from sluice.engine.groups import code, group
from sluice.engine.schema import of_version
from sluice.metrics.team_calls import TeamProcessUnavailable
from sluice.runtime.arrays import Ints

Done = TypeVar("Done")
Task = TypeVar("Task")
#: Task id and version.
Version = tuple[int, int]
#: Why each version failed, in words for the author of the task.
Failures = dict[Version, str]

#: What is caught for one task. A panic in polars' Rust code is no `Exception`. What is no fault of a task,
#: `reason` raises again.
CAUGHT = (Exception, PanicException)
#: An error is cut to this many characters, because it is shown in tables and stored as text.
SHOWN = 1_000

FAILED = pa.schema(
    [
        pa.field("task_id", pa.int32(), nullable=False),
        pa.field("version", pa.int32(), nullable=False),
        pa.field("message", pa.string(), nullable=False),
    ]
)


class TooManySeries(RuntimeError):
    """A task has more series in a period than the platform holds."""

    def __init__(self, found: int, limit: int) -> None:
        super().__init__(
            f"about {found:,} series in one period, {limit:,} are allowed (limits.series): take out a "
            "dimension whose values are nearly unique, filter it, or shorten the period"
        )


class TasksFailed(Exception):
    """Some tasks cannot be counted; the others can, once these are taken out."""

    def __init__(self, failures: Mapping[Version, str]) -> None:
        self.failures: Failures = dict(failures)
        names = "; ".join(f"{task}v{version}: {why}" for (task, version), why in sorted(failures.items()))
        super().__init__(names)


#: Takes note of versions that failed.
Aside = Callable[[Failures], object]


def refuse(failures: Failures) -> None:
    """An `Aside` for callers that need every task. Raises TasksFailed."""
    raise TasksFailed(failures)


class Noted:
    """How a Spark accumulator combines the failures that executors note.

    A Spark task that is repeated notes them again.
    """

    def zero(self, value: Failures) -> Failures:
        return {}

    def addInPlace(self, one: Failures, other: Failures) -> Failures:
        return {**one, **other}


def reason(error: BaseException) -> str:
    """Why a task failed, as one text that PostgreSQL can hold (it refuses NUL).

    A fault of the machine is no failure of a task: it is raised again, so that the work is tried again.
    """
    if isinstance(error, TeamProcessUnavailable):
        raise error
    words = str(error).strip() or "no message"
    # This package's own errors read well without a class name in front; errors of other code need it.
    text = words if isinstance(error, TooManySeries) else f"{type(error).__name__}: {words}"
    return text.replace("\0", "\\x00")[:SHOWN]


def to_table(failures: Mapping[Version, str]) -> pa.Table:
    rows = [{"task_id": t, "version": v, "message": why} for (t, v), why in sorted(failures.items())]
    return pa.Table.from_pylist(rows, schema=FAILED)


def from_table(table: pa.Table) -> Failures:
    return {(row["task_id"], row["version"]): row["message"] for row in table.to_pylist()}


def without(table: pa.Table, versions: Mapping[Version, str]) -> pa.Table:
    """The rows of other versions; `table` has the columns task_id and version."""
    for task_id, version in versions:
        table = table.filter(pc.invert(of_version(table, task_id, version)))
    return table


def versions_of(table: pa.Table) -> list[tuple[Version, pa.Table]]:
    """Each version's own rows."""
    (ids, _), (numbers, _) = (code(_one(table.column(name))) for name in ("task_id", "version"))
    groups = group([ids, numbers], table.num_rows)
    parts = []
    for n in range(groups.size):
        own = table.take(pa.array(np.flatnonzero(groups.numbers == n)))
        parts.append(((own.column("task_id")[0].as_py(), own.column("version")[0].as_py()), own))
    return parts


def each_or_all(work: Callable[[pa.Table], Done], table: pa.Table) -> tuple[list[Done], Failures]:
    """Do `work` on the whole table or, if that raises, on each version's rows alone.

    Returns the results and why some versions failed. If no version fails alone, raises the first error again.
    """
    try:
        return [work(table)], {}
    except TeamProcessUnavailable:
        raise
    except CAUGHT:
        done, failures = [], Failures()
        for version, own in versions_of(table):
            try:
                done.append(work(own))
            except CAUGHT as error:
                failures[version] = reason(error)
        if not failures:
            raise
        return done, failures


def leaving_out(
    attempt: Callable[[Mapping[Version, Task]], Done], tasks: Mapping[Version, Task]
) -> tuple[Done, dict[Version, Task], Failures]:
    """The result of `attempt`, the tasks that it could do, and why it could not do the others.

    `attempt` raises TasksFailed for tasks that it cannot do, and is called again without them. Raises
    TasksFailed if the error names none of the tasks that are left.
    """
    left, aside = dict(tasks), Failures()
    while True:
        try:
            return attempt(left), left, aside
        except TasksFailed as failed:
            if not failed.failures.keys() & left.keys():
                raise
            aside |= failed.failures
            left = {version: task for version, task in left.items() if version not in aside}


def series_a_period(periods: Ints, limit: int) -> None:
    """Raise `TooManySeries` if a period has more than `limit` series.

    `periods`: the period of each series, as a code.
    """
    if len(periods) > limit and (most := int(np.bincount(periods).max())) > limit:
        raise TooManySeries(most, limit)


def _one(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)
