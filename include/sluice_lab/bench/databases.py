"""Databases of one's own in the instance's PostgreSQL, made by a role for tests and benches alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa
from psycopg2.errors import InsufficientPrivilege

from sluice.runtime.settings import Settings, make_secret, read_secret
from sluice.stack import secrets, supervisord
from sluice.stack.daemons import postgres
from sluice.storage.postgres import engine, migrate
from sluice_lab.waiting import until

ROLE = "tests"
_SECRET = "postgres_tests"  # noqa: S105 - its name
#: The platform's role may enter databases with an underscore in their names, too; its own have none.
LINES = """host postgres {role} 127.0.0.0/8 scram-sha-256
host /_ {user} 127.0.0.0/8 scram-sha-256
"""
ORDERS = """CREATE ROLE {role} LOGIN CREATEDB PASSWORD '{password}';

GRANT "{user}", pg_checkpoint TO {role};

GRANT CONNECT ON DATABASE postgres TO {role};

"""


def admit(settings: Settings) -> None:
    """Let tests and benches make databases in the instance's PostgreSQL.

    If it runs, it is stopped for a moment.
    """
    lines = settings.home / "data" / "postgres" / "pg_hba.own.conf"
    if "postgres" in settings.external or lines.exists():
        return
    if running := supervisord.running(settings):
        supervisord.stop_program(settings, "postgres")
    secrets.make_missing(settings)
    known = Settings(
        instance=settings.instance,
        home=settings.home,
        port_base=settings.port_base,
        network=settings.network,
    )
    for step in postgres.POSTGRES.prepare:
        step(known)
    values = {"role": ROLE, "user": known.postgres.user, "password": make_secret(known.home, _SECRET)}
    postgres.single(known, ORDERS.format(**values), "postgres")
    lines.write_text(LINES.format(**values))
    lines.chmod(0o644)
    if running:
        supervisord.start_program(settings, "postgres")


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
    administer(settings, f"CREATE DATABASE {name} OWNER {settings.postgres.user}")
    try:
        yield own
    finally:
        engine(own).dispose()
        drop(settings, name)


def drop(settings: Settings, name: str) -> None:
    """Delete a database, whoever is in it. A worker of autovacuum may not be ended, so it is waited for."""

    def gone() -> bool:
        try:
            administer(settings, f"DROP DATABASE {name} WITH (FORCE)")
        except sa.exc.ProgrammingError as error:
            if isinstance(error.orig, InsufficientPrivilege):
                return False
            raise
        return True

    until(gone, what=f"{name} is deleted")


def administer(settings: Settings, statement: str) -> None:
    """Run a statement about databases, or about the server."""
    role = {"user": ROLE, "password": read_secret(settings.home, _SECRET), "database": "postgres"}
    url = settings.postgres.model_copy(update=role).url()
    administrator = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with administrator.connect() as connection:
        connection.execute(sa.text(statement))
    administrator.dispose()
