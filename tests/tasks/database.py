"""The platform's tables in a database without a server, for tests that need no PostgreSQL."""

from __future__ import annotations

import functools
import sqlite3

import sqlalchemy as sa
from sqlalchemy.pool import StaticPool

from sluice.storage.schema import metadata


def sqlite() -> sa.Engine:
    """All tables, empty, in memory; advisory locks do nothing, as SQLite has one writer anyway."""
    engine = _in_memory()
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
    with engine.begin() as connection:  # SQLite does not take this partial index from the metadata
        connection.execute(sa.text("DROP INDEX tasks_name"))
        connection.execute(sa.text("CREATE UNIQUE INDEX tasks_name ON tasks (name) WHERE deleted_at IS NULL"))
    with engine.connect() as connection:
        raw = connection.connection.dbapi_connection
        assert isinstance(raw, sqlite3.Connection)
        return raw.serialize()


def _in_memory() -> sa.Engine:
    engine = sa.create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _: object) -> None:
        connection.create_function("pg_advisory_xact_lock", 1, lambda key: None)

    return engine
