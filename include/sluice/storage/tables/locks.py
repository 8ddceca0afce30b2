"""PostgreSQL's advisory locks of fixed numbers: who takes one waits until no other has it.

Locks of a day, a backfill or a topic have no number here; theirs is the hash of its name.
"""

from __future__ import annotations

from enum import IntEnum

import sqlalchemy as sa


class Lock(IntEnum):
    """What only one transaction, or one start of a daemon, may do at a time."""

    MIGRATION = 0x51_0C_E0
    DATABASES = 0x51_0C_E1
    TASKS = 0x51_0C_E2
    UNITS = 0x51_0C_E3
    DASHBOARDS = 0x51_0C_E4
    SPEED_TOPICS = 0x51_0C_E5


def take(connection: sa.Connection, lock: Lock) -> None:
    """Take the lock, and keep it until the connection's transaction ends."""
    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(lock.value)))
