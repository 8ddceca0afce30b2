"""The SQL tables over the results, as they must be.

`results` is over all tasks. `v_<task>` has the current version of one task with typed columns; its options
name that version, so it answers by the same version until it is replaced. Both names are those of views. The
tables themselves are in a database beside, and never change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from sluice.results.query import PERIOD, is_list
from sluice.results.rows import STATE, schema_of
from sluice.sql.columns import LONG
from sluice.storage.hive import literal
from sluice.tasks.spec import ActiveTask, TaskSpec

RESULTS = "results"
PREFIX = "v_"
#: The class in the endpoint's jar (include/sluice/stack/java/spark/Results.java).
PROVIDER = "sluice.sql.Results"
#: Marks the platform's tables, and says what they were created from.
MARK = "sluice.table"
#: The comment once more, for DESCRIBE: Spark does not hand it to the provider.
COMMENT = "sluice.comment"
MOST_COMMENT = 1_000

_STATE = next(comment for name, _, comment in LONG if name == STATE)

_TYPES: Mapping[pa.DataType, str] = {
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
    pa.string(): "STRING",
}


@dataclass(frozen=True)
class Column:
    name: str
    type: str
    comment: str


@dataclass(frozen=True)
class SqlTable:
    """A table as it must be, and the view of it that has its name."""

    name: str
    columns: tuple[Column, ...]
    comment: str
    options: tuple[tuple[str, str], ...] = ()

    @property
    def digest(self) -> str:
        """Equal for equal tables."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]

    @property
    def stored(self) -> str:
        """The name of the table behind the view."""
        return f"{self.name}__{self.digest}"

    def create(self, database: str) -> str:
        """The statement that creates it."""
        columns = ", ".join(f"`{c.name}` {c.type} COMMENT {literal(c.comment)}" for c in self.columns)
        options = ", ".join(f"{name} {literal(value)}" for name, value in self.options)
        return (
            f"CREATE TABLE IF NOT EXISTS {database}.{self.stored} ({columns}) USING {PROVIDER} "
            + (f"OPTIONS ({options}) " if options else "")
            + f"COMMENT {literal(self.comment)} "
            + f"TBLPROPERTIES ('{MARK}' = '{self.digest}', '{COMMENT}' = {literal(self.comment)})"
        )

    def show(self, database: str, stored: str, *, new: bool) -> Iterator[str]:
        """The statements that create its view, or let it show this table in place of another one."""
        view, select = f"{database}.{self.name}", f"TABLE {stored}.{self.stored}"
        comment, mark = literal(self.comment), f"'{MARK}' = '{self.digest}'"
        if new:
            yield f"CREATE VIEW {view} COMMENT {comment} TBLPROPERTIES ({mark}) AS {select}"
            return
        yield f"ALTER VIEW {view} AS {select}"
        # The mark comes last: whatever was cut off before is done again.
        yield f"ALTER VIEW {view} SET TBLPROPERTIES ('comment' = {comment}, {mark})"


def tables(tasks: Iterable[ActiveTask]) -> list[SqlTable]:
    """`results`, and a table for each of the tasks."""
    columns = tuple(Column(*each) for each in LONG)
    found = [
        SqlTable(RESULTS, columns, "Every result of every task: final where a day is published, else live")
    ]
    taken: set[str] = set()
    for task in sorted(tasks, key=lambda each: each.task_id):
        name = PREFIX + task.spec.name.replace("-", "_")  # Hive allows no - in a table's name
        if name in taken:
            name = f"{name}_{task.task_id}"
        taken.add(name)
        found.append(of_task(task, name))
    return found


def of_task(task: ActiveTask, name: str) -> SqlTable:
    """The table of one task version."""
    names = [each.name for each in task.spec.dimensions]
    comments = {PERIOD: f"when the period begins; it lasts {task.spec.period}", STATE: _STATE}
    comments |= dict.fromkeys(names, "dimension")
    schema = schema_of(task, names, task.spec.metrics)
    columns = tuple(
        Column(field.name, sql_type(field.type), comments.get(field.name) or _metric_comment(field.name))
        for field in schema
    )
    options = (("task", str(task.task_id)), ("version", str(task.version)))
    return SqlTable(name, columns, described(task), options)


def described(task: ActiveTask) -> str:
    """What the task counts: its description, else its SELECT, else a sentence made of the spec."""
    spec = task.spec
    head = f"Task {spec.name}, version {task.version}: "
    written = _sentence(spec) if spec.sql is None else " ".join(spec.sql.split())
    return head + (spec.description or written)[:MOST_COMMENT]


def _sentence(spec: TaskSpec) -> str:
    by = ", ".join(each.name for each in spec.dimensions)
    zone = "" if spec.timezone == "UTC" else f" ({spec.timezone})"
    filtered = " that pass its filters" if spec.where or any(d.filter for d in spec.dimensions) else ""
    return (
        f"{', '.join(spec.metrics)} of the lines of topic {spec.topic}{filtered}, every {spec.period}{zone}"
        + (f", by {by}" if by else "")
    )


def _metric_comment(name: str) -> str:
    if name.endswith("_error"):
        return f"the stated error of {name.removesuffix('_error')}"
    return "metric, a list as JSON" if is_list(name) else "metric"


def sql_type(kind: pa.DataType) -> str:
    """Spark's type for a column of an answer."""
    if pa.types.is_timestamp(kind):
        return "TIMESTAMP"
    return "STRING" if pa.types.is_dictionary(kind) else _TYPES[kind]
