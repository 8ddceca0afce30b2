"""What only PostgreSQL knows and no line says: what is counted, over which offsets, and the eras of logs.

It is small, and changes rarely. So the watch keeps it as a document beside the archive
(`backup.definition_files`), and `sluice recover` has it if PostgreSQL is lost. None of these tables has a
secret; of what was erased there is the salted hash.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import sqlalchemy as sa

from sluice.storage.tables import schema

#: In the order in which their rows can be written: some refer to those of a table before.
TABLES = (
    "tasks",
    "task_versions",
    "task_changes",
    "value_lists",
    "topics",
    "frozen_topics",
    "task_ranges",
    "backfills",
    "backfill_days",
    "backfill_revisions",
    "log_eras",
    "archive_floors",
    "archive_expired_days",
    "dropped_days",
    "pruned",
    "speed_topics",
    "dashboards",
    "erasures",
)


class UnreadableDefinitions(ValueError):
    """A document that is not one of definitions."""


@dataclass(frozen=True)
class Definitions:
    """Rows by table, each by its columns, with times and bytes as texts. revision: of their schema."""

    revision: str
    rows: Mapping[str, list[dict[str, Any]]]

    @property
    def changes(self) -> int:
        """The number of the newest change of a task: it only grows, as long as the database is the same."""
        return max((row["id"] for row in self.rows.get("task_changes", ())), default=0)

    def to_json(self) -> str:
        """The same text for the same definitions."""
        return json.dumps({"revision": self.revision, "rows": self.rows}, indent=1, sort_keys=True) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Definitions:
        """Raises UnreadableDefinitions."""
        try:
            said = json.loads(text)
            return cls(said["revision"], {name: list(rows) for name, rows in said["rows"].items()})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UnreadableDefinitions(f"this is no document of definitions: {error!r}") from error


def read(database: sa.Engine) -> Definitions:
    """The definitions as of one moment. Raises DBAPIError."""
    with database.connect() as connection:
        if connection.dialect.name == "postgresql":
            connection.execution_options(isolation_level="REPEATABLE READ")
        return of(connection)


def of(connection: sa.Connection) -> Definitions:
    """The same, within the caller's transaction."""
    revision = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
    return Definitions(str(revision), {name: list(_rows(connection, name)) for name in TABLES})


def _rows(connection: sa.Connection, name: str) -> Iterator[dict[str, Any]]:
    table = schema.metadata.tables[name]
    for row in connection.execute(sa.select(table).order_by(*table.primary_key)):
        yield {
            column: value.isoformat()
            if isinstance(value, date)  # a datetime is one, too
            else value.hex()
            if isinstance(value, bytes)
            else value
            for column, value in row._mapping.items()
        }


def put(connection: sa.Connection, kept: Definitions) -> None:
    """Make these the rows of their tables, in the caller's transaction; the schema has their revision."""
    tables = sa.MetaData()
    tables.reflect(connection, only=[name for name in TABLES if name in kept.rows])
    there = [tables.tables[name] for name in TABLES if name in kept.rows]
    for table in reversed(there):
        connection.execute(sa.delete(table))
    for table in there:
        for row in kept.rows[table.name]:
            connection.execute(sa.insert(table).values(dict(_values(table, row))))
        if "id" in table.c and connection.dialect.name == "postgresql":
            _go_on_counting(connection, table)


def _values(table: sa.Table, row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The values as the columns take them. One that is missing is left out: a JSON's would be a JSON null."""
    for name, value in row.items():
        kind = table.c[name].type
        if value is None:
            continue
        if isinstance(kind, sa.DateTime):
            yield name, datetime.fromisoformat(value)
        elif isinstance(kind, sa.LargeBinary):
            yield name, bytes.fromhex(value)
        else:
            yield name, date.fromisoformat(value) if isinstance(kind, sa.Date) else value


def _go_on_counting(connection: sa.Connection, table: sa.Table) -> None:
    """Let new rows get numbers after those that are there."""
    newest = connection.scalar(sa.select(sa.func.max(table.c.id)))
    if newest is not None:
        sequence = sa.func.pg_get_serial_sequence(table.name, "id")
        connection.execute(sa.select(sa.func.setval(sequence, newest)))
