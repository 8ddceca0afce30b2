"""What `verify` says of a partition with merged files, and how `repair` puts a damaged one right.

It also tests `repair`, as far as it needs no Kafka.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.archive import layout
from sluice.archive.compaction import PartitionCompaction
from sluice.archive.repair import _damaged, _put_back
from sluice.archive.verification import Lacking
from sluice.runtime.sections import Archive
from tests.archive.local_archive import PLACE, LocalArchive


@pytest.fixture
def merged(tmp_path: Path) -> LocalArchive:
    """Three files that were merged, and one more."""
    archive = LocalArchive(tmp_path)
    for _ in range(3):
        archive.add(2)
    PartitionCompaction(archive.database, PLACE, archive.claims(), Archive()).run(set())
    archive.add(2)
    return archive


def damage(archive: LocalArchive, name: str) -> None:
    path = Path(archive.directory, name)
    data = path.read_bytes()
    path.write_bytes(data[:20] + bytes(200) + data[220:])


WHOLE = layout.merged_name(0, 6)


def test_a_merged_file_that_is_gone_lets_its_parts_stand_again(merged: LocalArchive) -> None:
    before = merged.lines_of_files()
    Path(merged.directory, WHOLE).unlink()
    assert merged.lines_of_files() == before
    (problem,) = merged.verified().problems
    assert "rebuild-index logs" in problem


def test_one_that_is_gone_after_its_parts_is_named(merged: LocalArchive) -> None:
    for first in (0, 2, 4):
        Path(merged.directory, layout.file_name(first)).unlink()
    assert merged.verified().problems == ()
    Path(merged.directory, WHOLE).unlink()
    found = merged.verified()
    assert found.problems == (f"{merged.directory}/{WHOLE} is gone, with offsets 0 to 5",)
    assert found.lacking == (Lacking(0, 6, damaged=False),)


def test_a_damaged_one_is_replaced_by_its_parts(merged: LocalArchive) -> None:
    before = merged.lines_of_index()
    damage(merged, WHOLE)
    (lacking,) = merged.verified().lacking
    assert lacking == Lacking(0, 6, damaged=True)
    again = _put_back(merged.database, PLACE, merged.claims(), lacking)
    assert again is not None
    assert (again.first, again.next, again.lines) == (0, 6, 12)
    assert merged.verified().problems == ()
    assert merged.lines_of_files() == merged.lines_of_index() == before
    assert len(merged.indexed()) == 4


def test_a_damaged_one_without_all_its_parts_is_taken_from_kafka(merged: LocalArchive) -> None:
    damage(merged, WHOLE)
    Path(merged.directory, layout.file_name(2)).unlink()
    (lacking,) = merged.verified().lacking
    assert _put_back(merged.database, PLACE, merged.claims(), lacking) is None
    names = _damaged(merged.claims(), lacking)
    assert names == [WHOLE, layout.file_name(0), layout.file_name(4)]


def test_a_damaged_file_of_the_archiver_has_no_parts(merged: LocalArchive) -> None:
    damage(merged, layout.file_name(6))
    (lacking,) = merged.verified().lacking
    assert _put_back(merged.database, PLACE, merged.claims(), lacking) is None
    assert _damaged(merged.claims(), lacking) == [layout.file_name(6)]
