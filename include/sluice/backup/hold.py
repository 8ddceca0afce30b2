"""What stands still while a backup is taken, and for how long.

Blocks of state are never changed in place, but the batch after next deletes those that a commit replaced,
and nights, backfills, rebuilds and retention replace final blocks, partitions and results. Each of them first
writes to PostgreSQL, into tables that can be locked against writers; readers go on. A lock ends with its
connection, so a backup that dies holds up nobody.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg2
from psycopg2.errors import DeadlockDetected, LockNotAvailable
from psycopg2.sql import SQL, Identifier

from sluice.runtime.sections import Postgres

#: What nights, publications, backfills, rebuilds and retention write before they delete or replace anything
#: in HDFS or HBase. No commit writes to these. Whoever writes `rebuilt_blocks` writes `rebuilds` first.
NIGHTS = (
    "days",
    "final_ranges",
    "unused_finals",
    "backfill_days",
    "backfill_blocks",
    "dropped_days",
    "rebuilds",
)
#: What each commit writes. While it is locked, the speed layer waits, and its lines wait in Kafka.
COMMITS = ("commits",)
#: Whoever waits for a lock makes all others wait behind it, so a try is short: shorter than the second after
#: which PostgreSQL ends one of two that wait for each other, which may be the platform.
TRY = "800ms"
TRIES, PAUSE_SECONDS = 120, 1.0


class NotHeld(RuntimeError):
    """The platform's tables could not be held, or the hold was lost."""


class TableHold:
    """One transaction that locks tables against writers; used by one thread."""

    def __init__(self, own: Postgres) -> None:
        self._connection = psycopg2.connect(own.url("postgresql"))

    @contextmanager
    def nights(self) -> Iterator[None]:
        """Let no night, publication, backfill, rebuild or retention book anything. Raises NotHeld."""
        with self._locked(NIGHTS):
            yield

    @contextmanager
    def commits(self) -> Iterator[None]:
        """Within `nights`: let the speed layer commit nothing, either. Raises NotHeld."""
        with self._locked(COMMITS):
            yield

    @contextmanager
    def _locked(self, tables: Sequence[str]) -> Iterator[None]:
        point = f"before_{tables[0]}"
        statement = SQL("LOCK TABLE {} IN SHARE MODE").format(SQL(", ").join(map(Identifier, tables)))
        with self._connection.cursor() as cursor:
            cursor.execute("SET LOCAL lock_timeout = %s", (TRY,))
            for left in reversed(range(TRIES)):
                cursor.execute(f"SAVEPOINT {point}")
                try:
                    cursor.execute(statement)
                    break
                except (LockNotAvailable, DeadlockDetected) as error:
                    cursor.execute(f"ROLLBACK TO SAVEPOINT {point}")
                    if not left:
                        raise NotHeld(
                            f"{', '.join(tables)}: somebody writes to these tables without a pause. See what "
                            "runs (`sluice status`), and take the backup later"
                        ) from error
                    time.sleep(PAUSE_SECONDS)
            yield
            try:  # it frees the locks, and fails if they were lost
                cursor.execute(f"ROLLBACK TO SAVEPOINT {point}")
            except psycopg2.Error as error:
                raise NotHeld(f"PostgreSQL ended the backup's transaction: take it again. {error}") from error

    def close(self) -> None:
        self._connection.close()
