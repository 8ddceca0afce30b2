from __future__ import annotations

from datetime import UTC, date, datetime

from sluice.archive.compaction_plan import ChainedFile, closed_before, runs
from sluice.archive.layout import file_name
from sluice.runtime.positions import position_at
from sluice.storage.hdfs import HdfsFile

CLOSED = 1_000


def file(first: int, following: int, size: int = 1, written: int = 0, records: int = 1) -> ChainedFile:
    return ChainedFile(HdfsFile(file_name(first), size, written, False), first, following, records)


def planned(*files: ChainedFile, cuts: tuple[int, ...] = (), most: int = 100) -> list[list[int]]:
    found = runs(files, closed=CLOSED, cuts=cuts, most_bytes=most)
    return [[each.first for each in run] for run in found]


def test_neighbours_are_merged_up_to_the_size() -> None:
    files = [file(n, n + 1, 30) for n in range(8)]
    assert planned(*files) == [[0, 1, 2], [3, 4, 5], [6, 7]]
    assert planned(*files[:7]) == [[0, 1, 2], [3, 4, 5]]
    assert planned() == planned(files[0]) == []


def test_a_file_of_half_the_size_stays_as_it_is() -> None:
    assert planned(file(0, 1), file(1, 2), file(2, 3, 50), file(3, 4), file(4, 5, 49)) == [[0, 1], [3, 4]]


def test_young_files_and_those_without_records_stay_as_they_are() -> None:
    files = [file(n, n + 1) for n in range(3)]
    assert planned(*files, file(3, 4, written=CLOSED), file(4, 5)) == [[0, 1, 2]]
    assert planned(*files, file(3, 9, records=0), file(9, 10), file(10, 11)) == [[0, 1, 2], [9, 10]]


def test_nothing_is_merged_over_a_cut_an_era_or_a_gap() -> None:
    files = [file(n, n + 1) for n in range(4)]
    assert planned(*files, cuts=(2, 4)) == [[0, 1], [2, 3]]
    assert planned(*files[:2], *(file(position_at(1, n), position_at(1, n + 1)) for n in (2, 3))) == [
        [0, 1],
        [position_at(1, 2), position_at(1, 3)],
    ]
    assert planned(files[0], files[1], files[3]) == [[0, 1]]


def test_a_file_is_closed_a_day_after_the_day_of_its_writing_ended() -> None:
    at = datetime.fromtimestamp(closed_before(date(2026, 11, 28)) / 1000, UTC)
    assert at == datetime(2026, 11, 27, tzinfo=UTC)
