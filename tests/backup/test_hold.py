"""While tables are held nobody writes to them and everybody reads; a holder that dies holds nobody up."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pytest
from psycopg2.errors import LockNotAvailable

from sluice.backup import hold as module
from sluice.backup.hold import COMMITS, NIGHTS, NotHeld, TableHold
from sluice.runtime.settings import Settings
from sluice.storage.postgres import migrate
from sluice.storage.tables.schema import metadata
from sluice_lab.bench import databases


def test_they_are_tables_of_the_platform() -> None:
    assert "rebuilds" in NIGHTS  # what is staged and what HBase has belong to one moment
    assert metadata.tables.keys() >= {*NIGHTS, *COMMITS}


@pytest.fixture
def own(stack: Settings) -> Iterator[Settings]:
    with databases.empty_database(stack, f"hold_{secrets.token_hex(4)}") as made:
        migrate(made)
        yield made


def may_write(settings: Settings, table: str) -> bool:
    with closing(psycopg2.connect(settings.postgres.url("postgresql"))) as connection:
        cursor = connection.cursor()
        cursor.execute(f"SELECT count(*) FROM {table}")
        cursor.execute("SET LOCAL lock_timeout = '200ms'")
        try:
            cursor.execute(f"DELETE FROM {table}")
        except LockNotAvailable:
            return False
        return True


@pytest.mark.stack
def test_nights_are_held_longer_than_commits(own: Settings) -> None:
    with closing(TableHold(own.postgres)) as hold:
        with hold.nights():
            assert (may_write(own, "days"), may_write(own, "commits")) == (False, True)
            with hold.commits():
                assert (may_write(own, "unused_finals"), may_write(own, "commits")) == (False, False)
                assert not may_write(own, "rebuilds")
            assert (may_write(own, "days"), may_write(own, "commits")) == (False, True)
        assert all(may_write(own, table) for table in (*NIGHTS, *COMMITS))


@pytest.mark.stack
def test_it_waits_for_a_writer_and_gives_up_in_time(own: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TRY", "100ms")
    monkeypatch.setattr(module, "TRIES", 2)
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0.0)
    with (
        closing(psycopg2.connect(own.postgres.url("postgresql"))) as writer,
        closing(TableHold(own.postgres)) as hold,
    ):
        writer.cursor().execute("DELETE FROM days")
        with pytest.raises(NotHeld, match="somebody writes"), hold.nights():
            pass
        writer.rollback()
        with hold.nights():
            assert not may_write(own, "days")


@pytest.mark.stack
def test_a_hold_that_was_lost_is_noticed(own: Settings) -> None:
    def lose() -> None:
        with closing(TableHold(own.postgres)) as hold, hold.nights(), hold.commits():
            hold._connection.close()

    with pytest.raises(NotHeld):
        lose()
    assert may_write(own, "commits")
