"""The databases in PostgreSQL: an instance's own is made with them, in another one they are created here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg2
from psycopg2 import sql

from sluice.runtime.sections import Postgres
from sluice.runtime.settings import Settings
from sluice.storage.tables.locks import Lock


def create(settings: Settings, own: Postgres) -> None:
    """Create the database in an external server, unless it is there or the server is the instance's own.

    Several daemons start at once and may need the same one; the second waits for the first.
    """
    if "postgres" not in settings.external:
        return
    with suppress(psycopg2.OperationalError):
        psycopg2.connect(own.url("postgresql")).close()
        return
    connection = psycopg2.connect(own.model_copy(update={"database": "postgres"}).url("postgresql"))
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", (Lock.DATABASES.value,))
            cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", (own.database,))
            if cursor.fetchone() is None:
                cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(own.database)))
    finally:
        connection.close()


@contextmanager
def locked(own: Postgres) -> Iterator[Any]:
    """A cursor of one transaction in the database, rolled back if something raises.

    Only one caller in the instance has it at a time.
    """
    connection = psycopg2.connect(own.url("postgresql"))
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", (Lock.DATABASES.value,))
            yield cursor
    finally:
        connection.close()
