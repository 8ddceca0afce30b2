"""The connection to the platform's PostgreSQL database, and the migrations of its schema.

Source: docs/architecture.md, "State and commit": a PostgreSQL transaction decides whether a line was counted.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import sqlalchemy
from sqlalchemy import Connection, make_url
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from sluice.runtime.backoff import patient
from sluice.runtime.settings import Settings
from sluice.storage.tables import locks

if TYPE_CHECKING:
    from alembic.config import Config

MIGRATIONS = Path(__file__).parent / "migrations"
# A daemon that is down must be noticed quickly: the callers' own retries decide how long to wait for it.
CONNECT_SECONDS = 5
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0

#: The commit of version 0.1.0, the last with the migrations that lead to today's first one.
BEFORE_FIRST = "d63abfdfdafd"

T = TypeVar("T")


class SchemaRefused(RuntimeError):
    """The database's schema is of a release from which no migration of this one leads on."""


def engine(settings: Settings) -> sqlalchemy.Engine:
    """This process's engine for the instance's database, one for each address.

    A pooled connection is tested before its use, so a restart of PostgreSQL costs a reconnection but causes
    no error.
    """
    return engine_at(settings.postgres.url())


@functools.lru_cache(maxsize=8)
def engine_at(url: str, authority: bytes = b"") -> sqlalchemy.Engine:
    """This process's engine for the database at this URL.

    authority: what is in the file with the root certificate that the URL names, for a machine without it.
    """
    place = make_url(url)
    if authority:
        place = place.update_query_dict({"sslrootcert": _in_memory(authority)})
    return sqlalchemy.create_engine(
        place,
        pool_pre_ping=True,
        pool_size=4,
        max_overflow=8,
        connect_args={
            "connect_timeout": CONNECT_SECONDS,
            "application_name": "sluice",
            # A connection whose peer silently vanished is given up after 30 s.
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 4,
        },
    )


@functools.lru_cache(maxsize=8)
def _in_memory(data: bytes) -> str:
    """The path of a file with these bytes that this process alone has, and that is gone with it."""
    file = os.memfd_create("authority")
    os.write(file, data)
    return f"/proc/self/fd/{file}"


def migrate(settings: Settings, revision: str = "head") -> None:
    """Bring the instance's database to the newest schema, or to that revision; what is already there stays.

    Raises SchemaRefused, and then has changed nothing.
    """
    from alembic import command

    with engine(settings).begin() as connection:
        locks.take(connection, locks.Lock.MIGRATION)  # two at once would both create the tables
        check_revision(connection)
        command.upgrade(alembic_config(connection), revision)


def require_known(settings: Settings) -> None:
    """Raise SchemaRefused if no migration leads on from the instance's database."""
    with engine(settings).connect() as connection:
        check_revision(connection)


def check_revision(connection: Connection) -> None:
    """Raise SchemaRefused if no migration leads on from what is in the database."""
    from alembic.migration import MigrationContext

    check_revisions(MigrationContext.configure(connection).get_current_heads())


def check_revisions(revisions: Iterable[str]) -> None:
    """Raise SchemaRefused if no migration leads on from one of these."""
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory.from_config(alembic_config())
    known = {script.revision for script in scripts.walk_revisions()}
    for found in set(revisions) - known:
        if found > max(known):
            raise SchemaRefused(
                f"the database is of a newer release: its schema has the revision {found}, and this release "
                f"knows those up to {max(known)}. Nothing was changed. Check that release out again (`git "
                "checkout`, `make setup`, `sluice up`), or go back as docs/runbook.md says under Upgrade"
            )
        raise SchemaRefused(
            f"the database is too old for this release: its schema has the revision {found}, and the first "
            f"one here is {min(known)}. Upgrade it with version 0.1.0 first: `git checkout {BEFORE_FIRST}`, "
            "`make setup`, `sluice up`, `sluice down`; then come back to this release, `make setup` and "
            "`sluice up`. Nothing was changed"
        )


def alembic_config(connection: Connection | None = None) -> Config:
    """Alembic's configuration; with a connection, its commands run in the caller's transaction."""
    from alembic.config import Config  # here, because it is a tenth of what a process that connects imports

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["connection"] = connection
    return config


def patiently(operation: Callable[[], T], seconds: float) -> T:
    """Run a repeatable operation, and repeat it for at most `seconds` while PostgreSQL is away."""
    return patient(seconds, _away, first=FIRST_PAUSE, longest=LONGEST_PAUSE)(operation)


def _away(error: BaseException) -> bool:
    return isinstance(error, DBAPIError) and (
        error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
    )
