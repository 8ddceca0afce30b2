from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from sluice.archive import indexing, layout
from sluice.archive.chain import GapInArchive
from sluice.archive.footer import UnreadableArchiveFile
from sluice.storage.tables.alerts import open_alerts
from sluice.storage.tables.schema import archive_files
from tests.archive.local_archive import PLACE, LocalArchive


@pytest.fixture
def archive(tmp_path: Path) -> LocalArchive:
    archive = LocalArchive(tmp_path)
    for _ in range(3):
        archive.add(2)
    return archive


def test_files_that_the_index_does_not_know_are_added(archive: LocalArchive) -> None:
    with archive.database.begin() as connection:
        connection.execute(sa.delete(archive_files))
    links = indexing.reconcile(archive.database, archive.claims(), PLACE)
    assert [(link.first, link.next) for link in links] == [(0, 2), (2, 4), (4, 6)]
    assert archive.indexed() == archive.standing()


def test_the_index_is_made_again_and_an_unreadable_file_leaves_it_as_it_was(archive: LocalArchive) -> None:
    with archive.database.begin() as connection:
        connection.execute(sa.delete(archive_files).where(archive_files.c.first == 2))
    assert indexing.rebuild(archive.database, archive.claims(), PLACE) == 3
    before = archive.indexed()
    assert before == archive.standing()
    Path(archive.claims().path(2)).write_bytes(b"not a Parquet file")
    with pytest.raises(UnreadableArchiveFile):
        indexing.rebuild(archive.database, archive.claims(), PLACE)
    assert archive.indexed() == before


def test_a_gap_is_refused_and_the_gone_file_forgotten(archive: LocalArchive) -> None:
    Path(archive.claims().path(2)).unlink()
    with pytest.raises(GapInArchive):
        indexing.reconcile(archive.database, archive.claims(), PLACE)
    assert archive.indexed() == [layout.file_name(0), layout.file_name(4)]


def test_a_loss_raises_its_alert(archive: LocalArchive) -> None:
    archive.lose(4)
    (alert,) = open_alerts(archive.database, "archive")
    assert (alert.name, "lost by a test; recorded in /" in alert.message) == ("lost logs/3: 6-10", True)


def test_a_file_is_put_in_place_of_all_that_begins_within_it(archive: LocalArchive) -> None:
    claims = archive.claims()
    (_, second, _) = claims.files()
    footer = claims.footer(second)
    with archive.database.begin() as connection:
        indexing.put_instead(connection, footer, second.length, claims.named(second.name))
    assert archive.indexed() == archive.standing()
