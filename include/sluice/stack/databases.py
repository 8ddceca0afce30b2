"""Databases in the instance's PostgreSQL; the daemon that needs one creates it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2
from psycopg2 import sql

from sluice.runtime.settings import Settings
from sluice.storage.locks import Lock


def create(settings: Settings, name: str) -> None:
    """Create the database of that name if there is none yet.

    Several daemons start at once and may need the same one; the second waits for the first.
    """
    connection = psycopg2.connect(settings.postgres.url("postgres", "postgresql"))
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", (Lock.DATABASES.value,))
            cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,))
            if cursor.fetchone() is None:
                cursor.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    finally:
        connection.close()


@contextmanager
def locked(settings: Settings, database: str) -> Iterator[Any]:
    """A cursor of one transaction in the database, rolled back if something raises.

    Only one caller in the instance has it at a time.
    """
    connection = psycopg2.connect(settings.postgres.url(database, "postgresql"))
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", (Lock.DATABASES.value,))
            yield cursor
    finally:
        connection.close()
