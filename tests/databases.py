"""Databases of one's own in the instance's PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine, migrate


@contextmanager
def database(settings: Settings, name: str) -> Iterator[Settings]:
    """The settings of a database of that name with the newest schema; it is dropped afterwards."""
    with empty_database(settings, name) as own:
        migrate(own)
        yield own


@contextmanager
def empty_database(settings: Settings, name: str) -> Iterator[Settings]:
    """The same, without a schema."""
    own = settings.model_copy(update={"postgres": settings.postgres.model_copy(update={"database": name})})
    _administer(settings, f"CREATE DATABASE {name}")
    try:
        yield own
    finally:
        engine(own).dispose()
        _administer(settings, f"DROP DATABASE {name} WITH (FORCE)")


def _administer(settings: Settings, statement: str) -> None:
    administrator = sa.create_engine(settings.postgres.url("postgres"), isolation_level="AUTOCOMMIT")
    with administrator.connect() as connection:
        connection.execute(sa.text(statement))
    administrator.dispose()
