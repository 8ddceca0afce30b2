"""The platform's tables in a database without a server, for tests that need no PostgreSQL."""

from __future__ import annotations

import functools
import sqlite3
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import QueuePool, StaticPool

from sluice.storage.tables.schema import metadata

_PARTIAL = {
    "tasks_name": "tasks (name) WHERE deleted_at IS NULL",
    "alerts_open": "alerts (source, name) WHERE cleared_at IS NULL",
}


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

    return engine
