"""The platform's tables in a database without a server, for tests that need no PostgreSQL."""

from __future__ import annotations

import functools
import json
import sqlite3
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import QueuePool, StaticPool

from sluice.storage.tables.schema import metadata

_PARTIAL = {
    "tasks_name": "tasks (name) WHERE deleted_at IS NULL",
    "alerts_open": "alerts (source, name) WHERE cleared_at IS NULL",
}
#: The triggers of migration 0033, as SQLite has them: a row at a time.
_SUMS = {
    "files": "1", "records": "{0}.records", "lines": "{0}.lines", "bytes": "{0}.bytes",
    "offsets": "{0}.next - {0}.first",
}  # fmt: skip


def _chains() -> Iterator[str]:
    for event, changes in (("INSERT", ("new",)), ("DELETE", ("old",)), ("UPDATE", ("old", "new"))):
        steps = []
        for row in changes:
            sign = "+" if row == "new" else "-"
            own = " AND ".join(f"{name} = {row}.{name}" for name in ("topic", "topic_id", "partition"))
            sums = ", ".join(f"{name} = {name} {sign} ({made.format(row)})" for name, made in _SUMS.items())
            keys = f"{row}.topic, {row}.topic_id, {row}.partition"
            steps.append(f"INSERT OR IGNORE INTO archive_chains VALUES ({keys}, 0, 0, 0, 0, 0);")
            steps.append(f"UPDATE archive_chains SET {sums} WHERE {own};")
        yield f"CREATE TRIGGER chains_{event} AFTER {event} ON archive_files BEGIN {' '.join(steps)} END"


def sqlite(threads: bool = False) -> sa.Engine:
    """All tables, empty, in memory; advisory locks do nothing, as SQLite has one writer anyway.

    threads: several use it, so each transaction has the one connection for itself.
    """
    engine = _in_memory(threads)
    with engine.begin() as connection:
        raw = connection.connection.dbapi_connection
        assert isinstance(raw, sqlite3.Connection)
        raw.deserialize(_empty())
    return engine


@functools.cache
def _empty() -> bytes:
    """The database as it is copied for each test: making the tables takes ten times as long."""
    engine = _in_memory()
    metadata.create_all(engine)
    with engine.begin() as connection:  # SQLite does not take these partial indexes from the metadata
        for name, made in _PARTIAL.items():
            connection.execute(sa.text(f"DROP INDEX {name}"))
            connection.execute(sa.text(f"CREATE UNIQUE INDEX {name} ON {made}"))
        for trigger in _chains():
            connection.execute(sa.text(trigger))
    with engine.connect() as connection:
        raw = connection.connection.dbapi_connection
        assert isinstance(raw, sqlite3.Connection)
        return raw.serialize()


def _in_memory(threads: bool = False) -> sa.Engine:
    one: dict[str, Any] = (
        {"poolclass": QueuePool, "pool_size": 1, "max_overflow": 0} if threads else {"poolclass": StaticPool}
    )
    engine = sa.create_engine("sqlite://", **one, connect_args={"check_same_thread": False})

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _: object) -> None:
        connection.create_function("pg_advisory_xact_lock", 1, lambda key: None)
        connection.create_function("greatest", -1, max)
        connection.create_function("jsonb_extract_path_text", 2, _field)

    return engine


def _field(document: str | None, name: str) -> str | None:
    """A field of a JSON object as text, as PostgreSQL's function of that name says it."""
    found = None if document is None else json.loads(document).get(name)
    return None if found is None else str(found)
