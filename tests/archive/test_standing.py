from __future__ import annotations

from sluice.archive.layout import file_name, merged_name
from sluice.archive.standing import StandingFiles, standing
from sluice.storage.hdfs import HdfsFile


def found(*names: str) -> StandingFiles:
    return standing(HdfsFile(name, 1, 1, False) for name in names)


def stands(*names: str) -> tuple[list[str], list[str]]:
    own = found(*names)
    return [each.name for each in own.files.values()], [each.file.name for each in own.replaced]


def test_files_of_the_archiver_all_stand() -> None:
    names = [file_name(first) for first in (0, 10, 30)]
    assert stands(*reversed(names), ".tmp-0-1.parquet", "_SUCCESS") == (names, [])


def test_a_merged_file_replaces_what_begins_within_it() -> None:
    old = [file_name(first) for first in (0, 10, 20)]
    merged, before, after = merged_name(10, 30), file_name(0), file_name(30)
    assert stands(before, *old[1:], merged, after) == ([before, merged, after], old[1:])


def test_a_merged_file_of_merged_files_replaces_these_and_their_parts() -> None:
    parts = [file_name(0), merged_name(0, 20), file_name(10), merged_name(20, 40), file_name(20)]
    whole = merged_name(0, 40)
    kept, replaced = stands(*parts, whole)
    assert (kept, sorted(replaced)) == ([whole], sorted(parts))
    assert {each.by.name for each in found(*parts, whole).replaced} == {whole}


def test_one_that_begins_within_a_standing_file_replaces_nothing() -> None:
    """Two compactions that knew nothing of each other; the file that only the second one has stands."""
    one, other, last = merged_name(0, 30), merged_name(10, 40), file_name(30)
    assert stands(one, other, last) == ([one, last], [other])


def test_an_offset_is_found_in_the_merged_file_that_has_it() -> None:
    own = found(file_name(0), merged_name(10, 30), file_name(30))
    names = [each and each.name for each in map(own.over, (0, 9, 10, 29, 30))]
    assert names == [None, None, merged_name(10, 30), merged_name(10, 30), None]
    assert found().over(0) is None


def test_of_two_revisions_the_later_one_stands_and_it_replaces_the_parts_too() -> None:
    old = [file_name(0), file_name(10), merged_name(0, 20)]
    revised = [merged_name(0, 20, revision) for revision in (2, 9, 10)]
    assert stands(*old, *revised)[0] == [revised[-1]]
    assert stands(file_name(0), merged_name(0, 10, 1), file_name(10))[0] == [
        merged_name(0, 10, 1),
        file_name(10),
    ]
    whole = merged_name(0, 30)
    assert stands(*revised, whole)[0] == [whole]
