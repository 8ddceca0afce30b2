"""Retention of the archive: the chain begins later, and nobody takes that for a fault."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import ValidationError

from sluice.archive import expiry, indexing, layout
from sluice.archive.compaction import PartitionCompaction
from sluice.archive.expiry import ExpiredFiles, of_partition
from sluice.runtime import crash_points
from sluice.runtime.sections import Archive
from sluice.runtime.settings import Settings
from sluice.storage.tables import archive_expiry, schema
from sluice.storage.tables.archive_expiry import DaysExpired
from sluice.storage.tables.days import Days
from sluice.storage.tables.topic_totals import read
from tests.archive.local_archive import PLACE, LocalArchive

#: When the lines of `LocalArchive` arrived.
ARRIVED = datetime.fromtimestamp(1_700_000_000, UTC)
DAYS = {date(2015, 5, 17), date(2015, 5, 18)}


@pytest.fixture
def archive(tmp_path: Path) -> LocalArchive:
    archive = LocalArchive(tmp_path)
    for _ in range(4):
        archive.add(2)
    return archive


def arrived(archive: LocalArchive, first: int, at: datetime) -> None:
    """Let the lines of the file have arrived then."""
    t = schema.archive_files
    with archive.database.begin() as connection:
        ms = round(at.timestamp() * 1000)
        connection.execute(sa.update(t).where(t.c.first == first).values(arrival_max=ms))


def run(archive: LocalArchive, days: float = 1) -> ExpiredFiles:
    """Expire what arrived before so many days after most lines arrived."""
    return of_partition(archive.database, PLACE, archive.claims(), ARRIVED + timedelta(days=days))


def test_the_oldest_files_go_up_to_the_first_that_is_young(archive: LocalArchive) -> None:
    arrived(archive, 4, ARRIVED + timedelta(days=9))
    done = run(archive, 5)
    assert (done.files, done.lines, done.deleted, done.problem) == (2, 8, 2, "")
    assert archive.names() == archive.indexed() == [layout.file_name(4), layout.file_name(6)]
    found = archive.verified()
    assert (found.problems, found.lacking, found.first, found.next) == ((), (), 4, 8)
    assert run(archive, 5) == ExpiredFiles(PLACE)
    assert str(done) == "logs/3 of id: 2 files with 8 lines (0 MiB) left the archive; 2 files deleted"


def test_the_newest_file_stays_for_the_archiver_s_position(archive: LocalArchive) -> None:
    assert run(archive).files == 3
    assert archive.standing() == [layout.file_name(6)]
    links = indexing.reconcile(archive.database, archive.claims(), PLACE)
    assert [link.next for link in links] == [8]


def test_a_day_after_its_arrival_does_not_keep_a_file(archive: LocalArchive) -> None:
    t = schema.archive_files
    with archive.database.begin() as connection:
        connection.execute(sa.update(t).where(t.c.first == 2).values(days={"2099-01-01": [4, 1, 2]}))
    assert run(archive).files == 3


def test_files_of_young_days_stay(archive: LocalArchive) -> None:
    """They say the day of their arrival, and that is not over at the bound."""
    t = schema.archive_files
    with archive.database.begin() as connection:
        days = {ARRIVED.date().isoformat(): 4}
        connection.execute(sa.update(t).where(t.c.first == 2).values(days=days))
    assert run(archive, 0.01).files == 1


def test_nobody_sees_a_fault_if_it_dies_between_the_books_and_the_files(
    archive: LocalArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def kill(*_: object) -> None:
        raise Killed

    crash_points._reached.clear()
    environ = dict(os.environ, SLUICE_FAULT="archive_expired")
    monkeypatch.setattr(crash_points, "os", SimpleNamespace(kill=kill, getpid=int, environ=environ))
    with pytest.raises(Killed):
        run(archive)
    del environ["SLUICE_FAULT"]
    assert len(archive.names()) == 4
    assert archive.verified().problems == ()
    indexing.reconcile(archive.database, archive.claims(), PLACE)
    assert archive.indexed() == [layout.file_name(6)]
    done = run(archive)
    assert (done.files, done.deleted) == (0, 3)
    assert archive.names() == [layout.file_name(6)]


def test_merged_files_and_what_they_replaced_go_together(archive: LocalArchive) -> None:
    PartitionCompaction(archive.database, PLACE, archive.claims(), Archive()).run(set())
    archive.add(2)
    arrived(archive, 0, ARRIVED)
    done = run(archive)
    assert (done.files, done.lines, done.deleted) == (1, 16, 5)
    assert archive.names() == [layout.file_name(8)]


def test_days_that_lack_lines_are_refused_and_the_books_still_hold(archive: LocalArchive) -> None:
    with archive.database.connect() as connection:
        before = read(connection, "logs", date(2026, 1, 1))
    run(archive)
    with archive.database.connect() as connection:
        after = read(connection, "logs", date(2026, 1, 1))
        assert archive_expiry.days(connection, "logs") == DAYS
    assert (after.archived, after.archived_records) == (before.archived, before.archived_records) == (16, 8)
    assert Days(archive.database, "logs").expired() == DAYS
    archive_expiry.check(archive.database, "logs", [date(2015, 5, 16)])
    archive_expiry.check(archive.database, "shop", DAYS)
    with pytest.raises(DaysExpired, match=r"2015-05-17, 2015-05-18 any more: .*\(retention.archive_days\)"):
        archive_expiry.check(archive.database, "logs", {*DAYS, date(2015, 5, 16)})


def test_a_broken_chain_is_left_alone(archive: LocalArchive) -> None:
    Path(archive.claims().path(2)).unlink()
    assert "offsets 2 to 3 are missing" in run(archive).problem
    assert len(archive.names()) == 3


def test_by_default_everything_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> None:
        raise AssertionError("nothing is to be looked at")

    monkeypatch.setattr(expiry, "engine", never)
    assert list(expiry.expire(Settings(instance="test"), "logs")) == []


def test_the_archive_is_kept_at_least_as_long_as_results() -> None:
    with pytest.raises(ValidationError, match=r"archive_days: 30 is less than days \(400\)"):
        Settings(instance="test", retention={"archive_days": 30})
    assert Settings(instance="test", retention={"archive_days": 400}).retention.archive_days == 400
