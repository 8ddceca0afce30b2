"""PostgreSQL lost the end of its write-ahead log: it starts, with a beginning of what was committed."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from sluice.stack import databases
from tests.cuts.damage import damage, dice
from tests.cuts.stores import OwnDaemons, own_daemons

pytestmark = [pytest.mark.stack, pytest.mark.long]

ROWS, PAGE = 300, 8192


def commit(own: OwnDaemons) -> list[tuple[int, str, int]]:
    """Commit rows one by one; returns each with the segment of the log and where it ended there."""
    found = []
    with closing(psycopg2.connect(own.settings.postgres.url("postgresql"))) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE IF NOT EXISTS rows (n int PRIMARY KEY, text text)")
        cursor.execute("SELECT count(*) FROM rows")
        first = cursor.fetchone()[0]
        for number in range(first, first + ROWS):
            cursor.execute("INSERT INTO rows VALUES (%s, %s)", (number, "x" * 200))
            cursor.execute("SELECT * FROM pg_walfile_name_offset(pg_current_wal_flush_lsn())")
            found.append((number, *cursor.fetchone()))
    return found


def rows(own: OwnDaemons) -> list[int]:
    with closing(psycopg2.connect(own.settings.postgres.url("postgresql"))) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT n FROM rows ORDER BY n")
        return [number for (number,) in cursor.fetchall()]


@pytest.mark.parametrize("zeros", [False, True])
def test_what_was_committed_before_the_cut_is_there_and_nothing_else(tmp_path: Path, zeros: bool) -> None:
    drawn = dice()
    with own_daemons(tmp_path, "postgres") as own:
        databases.create(own.settings, own.settings.postgres)
        committed = commit(own)
        own.kill()
        _, name, end = committed[-1]
        segment = own.home / "data" / "postgres" / "pg_wal" / name
        done = damage(segment, drawn, zeros=zeros, end=end, most=min(end, 64 << 10) // 2)
        own.start()
        found = rows(own)
        assert found == list(range(len(found)))
        # A segment has its whole length from the start; of one that is shorter, half a page is not read.
        kept = done.kept if zeros else done.kept // PAGE * PAGE
        assert {number for number, its, at in committed if its < name or at <= kept} <= set(found)
