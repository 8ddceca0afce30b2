"""Compaction of a partition: the same lines in fewer files, whatever is killed when."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.archive import compaction, indexing, layout, verification
from sluice.archive.compaction import CompactionUnderWay, PartitionCompaction, compact
from sluice.archive.file import of_records
from sluice.runtime.holds import Hold, hold, release
from sluice.runtime.sections import Archive
from sluice.storage.stores import LocalStore
from sluice.storage.tables.alerts import open_alerts
from tests.archive.local_archive import PLACE, Killed, LocalArchive, batch, line

KILLED_AT = ["archive_before_rename", "archive_after_rename", "archive_merged", "archive_replaced_deleted"]


@pytest.fixture
def archive(tmp_path: Path) -> LocalArchive:
    return LocalArchive(tmp_path)


def run(archive: LocalArchive, cuts: set[int] | None = None, **limits: Any) -> compaction.Compacted:
    own = PartitionCompaction(archive.database, PLACE, archive.claims(), Archive(**limits))
    return own.run(cuts or set())


def name(first: int, following: int) -> str:
    return layout.merged_name(first, following)


def test_closed_files_become_one_with_the_same_lines(archive: LocalArchive) -> None:
    for records in (5, 1, 7):
        archive.add(records)
    before = archive.lines_of_files()
    done = run(archive)
    assert (done.files, done.merged, done.made, done.deleted, done.waiting) == (3, 3, 1, 0, 3)
    assert archive.standing() == archive.indexed() == [name(0, 13)]
    assert archive.lines_of_files() == archive.lines_of_index() == before
    assert archive.verified().problems == ()
    (row,) = archive.rows()
    assert (row.records, row.lines, row.unparsed, row.next) == (13, 26, 0, 13)
    assert {day: said[0] for day, said in row.days.items()} == {"2015-05-17": 13, "2015-05-18": 13}


def test_replaced_files_are_kept_for_readers_and_then_deleted(archive: LocalArchive) -> None:
    for _ in range(3):
        archive.add(2)
    first = archive.standing()
    run(archive)
    assert run(archive).waiting == 3
    assert archive.names() == sorted([*first, name(0, 6)])
    archive.pass_time()
    done = run(archive)
    assert (done.deleted, done.waiting, done.problems) == (3, 0, ())
    assert archive.names() == [name(0, 6)]
    assert archive.verified().problems == ()


def test_merged_files_are_merged_again_when_they_are_closed(archive: LocalArchive) -> None:
    for _ in range(2):
        archive.add(2)
    run(archive)
    before = archive.lines_of_files()
    archive.add(3)
    assert archive.standing() == [name(0, 4), layout.file_name(4)]
    run(archive)
    assert archive.standing() == archive.indexed() == [name(0, 7)]
    assert archive.lines_of_files()[: len(before)] == before
    archive.pass_time()
    assert run(archive).deleted == 4
    assert archive.names() == [name(0, 7)]


def test_young_files_cuts_and_losses_stay_as_they_are(archive: LocalArchive) -> None:
    for _ in range(4):
        archive.add(2)  # the cut is at 4
    archive.lose(5)
    for _ in range(2):
        archive.add(2)
    made = of_records(PLACE, 17, [batch([17], [line(20)])], 1)
    claims = archive.claims()
    indexing.add(archive.database, [(*claims.publish(made), claims.path(17))])  # it was written just now
    run(archive, {4})
    assert archive.standing() == [
        name(0, 4), name(4, 8), layout.file_name(8), name(13, 17), layout.file_name(17)
    ]  # fmt: skip
    assert archive.verified().problems == ()
    assert [alert.name for alert in open_alerts(archive.database, "archive")] == ["lost logs/3: 8-13"]


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("point", KILLED_AT)
def test_nobody_sees_a_gap_or_a_double_wherever_it_is_killed(
    archive: LocalArchive, dies: Any, monkeypatch: pytest.MonkeyPatch, point: str, times: int
) -> None:
    for _ in range(3):
        archive.add(2)
    archive.lose(1)
    for _ in range(3):
        archive.add(2)
    before = archive.lines_of_files()
    if point == "archive_replaced_deleted":
        run(archive)
        archive.pass_time()
    dies(point, times)
    with pytest.raises(Killed):
        run(archive)
    monkeypatch.delenv("SLUICE_FAULT")
    assert archive.lines_of_files() == archive.lines_of_index() == before
    assert archive.verified().problems == ()
    indexing.rebuild(archive.database, archive.claims(), PLACE)
    assert archive.lines_of_index() == before
    links = indexing.reconcile(archive.database, archive.claims(), PLACE)  # the archiver begins
    assert links[-1].next == archive.position
    archive.age()  # the temporary file is as old as others
    run(archive)
    archive.pass_time()
    run(archive)
    assert archive.names() == [name(0, 6), layout.file_name(6), name(7, 13)]
    assert archive.lines_of_files() == archive.lines_of_index() == before


def test_the_index_is_brought_up_to_what_stands_by_whoever_comes_first(
    archive: LocalArchive, dies: Any
) -> None:
    for _ in range(3):
        archive.add(2)
    dies("archive_after_rename")
    with pytest.raises(Killed):
        run(archive)
    assert len(archive.indexed()) == 3
    indexing.reconcile(archive.database, archive.claims(), PLACE)
    assert archive.indexed() == [name(0, 6)]


def test_an_archiver_that_indexes_late_adds_no_double(archive: LocalArchive) -> None:
    for _ in range(3):
        archive.add(2)
    claims = archive.claims()
    late = [(claims.footer(each), each.length, claims.named(each.name)) for each in claims.files()]
    run(archive)
    indexing.add(archive.database, late)
    assert archive.indexed() == [name(0, 6)]


def test_a_writer_that_slept_loses_its_claim_to_a_merged_file(archive: LocalArchive) -> None:
    archive.add(2)
    sleeper = archive.claims()
    assert len(sleeper.files()) == 1
    for _ in range(2):
        archive.add(2)
    run(archive)
    archive.pass_time()
    run(archive)
    assert archive.names() == [name(0, 6)]
    sleeper._looked -= 86_400
    made = of_records(PLACE, 2, [batch([2, 3, 4], [line(17)] * 3)], 1)
    footer, _ = sleeper.publish(made)
    assert (footer.name, footer.claim == made.footer.claim) == (name(0, 6), False)
    assert archive.names() == [name(0, 6)]


def damage(archive: LocalArchive, path: Path) -> bytes:
    """Overwrite bytes of a file; its footer is as it was. Returns what it was."""
    data = path.read_bytes()
    path.write_bytes(data[:20] + bytes(200) + data[220:])
    archive.age()
    return data


def test_a_damaged_file_is_named_and_its_neighbours_are_leftalone(archive: LocalArchive) -> None:
    for _ in range(3):
        archive.add(2)
    path = Path(archive.claims().path(2))
    damage(archive, path)
    done = run(archive)
    assert (done.merged, len(done.problems)) == (0, 1)
    assert str(path) in done.problems[0]
    assert len(archive.standing()) == len(archive.indexed()) == 3


def test_a_file_that_reaches_behind_the_merged_one_is_not_deleted(archive: LocalArchive) -> None:
    for _ in range(3):
        archive.add(2)
    run(archive)
    made = of_records(PLACE, 5, [batch([5, 6, 7], [line(17)] * 3)], 1)
    Path(archive.claims().path(5)).write_bytes(made.data)  # copied there by hand
    archive.pass_time()
    done = run(archive)
    assert layout.file_name(5) in archive.names()
    assert "move the one that does not belong there" in done.problems[0]


def test_parts_of_a_damaged_file_are_not_deleted(archive: LocalArchive) -> None:
    for _ in range(3):
        archive.add(2)
    run(archive)
    archive.pass_time()
    sound = damage(archive, Path(archive.directory, name(0, 6)))
    done = run(archive)
    assert (done.deleted, done.waiting, len(archive.names())) == (0, 3, 4)
    assert "`sluice archive repair logs` lets its parts stand again" in done.problems[0]
    Path(archive.directory, name(0, 6)).write_bytes(sound)
    assert run(archive).deleted == 3


def test_parts_that_changed_meanwhile_are_not_replaced(
    archive: LocalArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        archive.add(2)
    real = compaction.merged

    def slowly(parts: Any) -> Any:
        made = real(parts)
        Path(archive.claims().path(2)).unlink()  # somebody takes it away
        return made

    monkeypatch.setattr(compaction, "merged", slowly)
    done = run(archive)
    assert "changed while they were merged" in done.problems[0]
    assert archive.standing() == [layout.file_name(0)]


@pytest.fixture
def whole(archive: LocalArchive, monkeypatch: pytest.MonkeyPatch) -> LocalArchive:
    """The archive as `compact` finds it; nobody else compacts the topic."""
    monkeypatch.setattr(compaction, "engine", lambda settings: archive.database)
    monkeypatch.setattr(verification, "HdfsStore", SimpleNamespace(of=lambda settings: LocalStore()))
    monkeypatch.setattr(compaction, "alone", lambda database, topic: contextlib.nullcontext())
    return archive


def test_a_dry_run_says_what_would_be_merged_and_changes_nothing(whole: LocalArchive) -> None:
    for _ in range(3):
        whole.add(2)
    before = whole.names()
    (found,) = compact(whole.settings, "logs", dry_run=True)
    assert (found.files, found.merged, found.made, found.deleted) == (3, 3, 1, 0)
    assert (whole.names(), whole.indexed()) == (before, before)
    told: list[str] = []
    (done,) = compact(whole.settings, "logs", tell=told.append)
    assert (done.merged, done.made, done.bytes) == (found.merged, found.made, found.bytes)
    assert [each.split(",")[0] for each in told] == [f"logs/3: 3 files of offsets 0 to 5 are {name(0, 6)}"]
    assert str(done).startswith("logs/3 of id: 3 files, 3 of them (0 MiB) merged into 1; 0 replaced files")


def test_a_full_disk_holds_up_what_takes_space_and_not_what_gives_it_back(whole: LocalArchive) -> None:
    for _ in range(3):
        whole.add(2)
    list(compact(whole.settings, "logs"))
    whole.pass_time()
    for _ in range(3):
        whole.add(2)
    whole.age()
    whole.settings.home.mkdir(parents=True, exist_ok=True)
    hold(whole.settings.home, Hold.LAYERS, "the disk has 1 MiB")
    told: list[str] = []
    (done,) = compact(whole.settings, "logs", tell=told.append)
    assert (done.made, done.deleted) == (0, 3)
    assert told == ["logs/3: nothing is merged now: the disk has 1 MiB"]
    release(whole.settings.home, Hold.LAYERS)
    (done,) = compact(whole.settings, "logs")
    assert done.made == 1


def test_trouble_is_an_alert_until_it_is_over(whole: LocalArchive) -> None:
    for _ in range(3):
        whole.add(2)
    path = Path(whole.claims().path(2))
    sound = damage(whole, path)
    list(compact(whole.settings, "logs"))
    (alert,) = open_alerts(whole.database, "archive")
    assert (alert.name, str(path) in alert.message) == ("compaction of logs/3 of id", True)
    path.write_bytes(sound)
    whole.age()
    list(compact(whole.settings, "logs"))
    assert open_alerts(whole.database, "archive") == []


def test_a_second_compaction_is_refused(archive: LocalArchive) -> None:
    with archive.database.connect() as connection:
        raw: Any = connection.connection.driver_connection
        raw.create_function("hashtextextended", 2, lambda text, seed: 1)
        raw.create_function("pg_try_advisory_lock", 1, lambda key: False)
    with (
        pytest.raises(CompactionUnderWay, match="another process compacts the archive of topic 'logs'"),
        compaction.alone(archive.database, "logs"),
    ):
        pass
