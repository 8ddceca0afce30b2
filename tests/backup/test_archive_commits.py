"""The archive's lines are committed once, whatever is killed, and as the speed layer commits them."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import sqlalchemy as sa

from sluice.archive import index
from sluice.archive.file import of_records
from sluice.backup import archive_commits as module
from sluice.backup.archive_commits import ArchiveCommits, together, whole_records
from sluice.speed.ledger import ByteLedger
from sluice.storage.tables import schema
from sluice.storage.tables.commits import CommitLog
from tests.archive.local_archive import PLACE, LocalArchive, batch, line
from tests.backup.stores import silent

NAME = ("web1", "access.2015-05-17.log")
BYTES = 100  # from one line's beginning to the next one's, in these archives


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalArchive:
    made = LocalArchive(tmp_path)
    monkeypatch.setattr(index, "engine", lambda _: made.database)
    return made


def add(archive: LocalArchive, offsets: list[int], lines: list[bytes], *, first: int) -> None:
    """A file of records of a line each; a record's offset says where its line begins in its file."""
    found = batch(offsets, lines)
    columns = [
        pa.array(np.array(offsets) % 10 * BYTES) if field.name == "src_offset" else found.column(field.name)
        for field in found.schema
    ]
    columns = [
        pa.array([False] * len(found)) if field.name == "forged" else column
        for field, column in zip(found.schema, columns, strict=True)
    ]
    own = pa.RecordBatch.from_arrays(columns, schema=found.schema)
    archive.publish(of_records(PLACE, first, [own], 1))


def commits(archive: LocalArchive) -> ArchiveCommits:
    settings = archive.settings
    hdfs = settings.hdfs.model_copy(update={"namenode": ""})  # paths of this machine
    return ArchiveCommits(settings.model_copy(update={"hdfs": hdfs}), archive.database, PLACE.topic)


def sums(archive: LocalArchive) -> dict[str, int]:
    with archive.database.connect() as connection:
        rows = [row.counts for row in connection.execute(sa.select(schema.commits))]
    return {name: sum(row.get(name, 0) for row in rows) for name in ("records", "doubled", "counted", "dead")}


def rows(archive: LocalArchive, table: sa.Table) -> list[sa.Row]:  # type: ignore[type-arg]
    with archive.database.connect() as connection:
        return list(connection.execute(sa.select(table)))


@pytest.fixture
def filled(archive: LocalArchive) -> LocalArchive:
    """Three files: five lines, two of them again and one without a time, and a loss."""
    add(archive, [0, 1, 2, 3, 4], [line(17, second) for second in range(5)], first=0)
    add(archive, [13, 14, 15], [line(17, 3), line(17, 4), b"no time at all"], first=5)
    archive.lose(4)
    return archive


def check(archive: LocalArchive) -> None:
    assert sums(archive) == {"records": 8, "doubled": 2, "counted": 5, "dead": 1}
    log = CommitLog(archive.database, PLACE.topic)
    head = log.head()
    assert head is not None
    assert (head.end, head.topic_id) == ({"3": 20}, PLACE.topic_id)
    ledger = ByteLedger.from_rows(vars(row) for row in log.ledger())
    assert ledger.files() == [NAME]
    assert ledger.covered(*NAME) == sum(len(line(17)) + 1 for _ in range(5)) + len(b"no time at all") + 1
    ((_, day, partition, lines, last),) = rows(archive, schema.event_days)
    assert (day, partition, lines, last) == (date(2015, 5, 17), 3, 5, 4)
    (letter,) = rows(archive, schema.dead_letters)
    assert (letter.offset, letter.line, letter.reason) == (15, b"no time at all", "no event time")
    assert rows(archive, schema.tallies) == []


def test_each_line_is_committed_once_with_its_ledger_day_and_letter(filled: LocalArchive) -> None:
    said: list[str] = []
    own = commits(filled)
    own.write(said.append)
    check(filled)
    assert (own.lines, said) == (8, ["8 lines, 2 of them doubles"])
    again = commits(filled)
    again.write(silent)
    assert again.lines == 0
    check(filled)


@pytest.mark.parametrize("survives", [0, 1, 2])
def test_a_kill_after_each_commit_loses_and_doubles_nothing(
    filled: LocalArchive, monkeypatch: pytest.MonkeyPatch, survives: int
) -> None:
    monkeypatch.setattr(module, "COMMIT_BYTES", 1)  # a commit a file
    append, made = CommitLog.append, list[int]()

    def killed(log: CommitLog, commit: module.Commit) -> None:
        if len(made) == survives:
            raise KeyboardInterrupt
        made.append(commit.seq)
        append(log, commit)

    with monkeypatch.context() as fault:
        fault.setattr(CommitLog, "append", killed)
        with pytest.raises(KeyboardInterrupt):
            commits(filled).write(silent)
    commits(filled).write(silent)
    check(filled)
    assert len(rows(filled, schema.commits)) == 3


def test_numbers_go_on_after_those_that_the_ranges_name(filled: LocalArchive) -> None:
    range_ = {"task_id": 4, "version": 1, "first_seq": 11, "topic": PLACE.topic, "start": {}}
    over = {**range_, "version": 2, "first_seq": 30, "end": {"3": 5}, "end_seq": 41}
    with filled.database.begin() as connection:
        for row in (range_, over):
            connection.execute(sa.insert(schema.task_ranges).values(row))
    commits(filled).write(silent)
    (first, *_) = rows(filled, schema.commits)
    assert (first.seq, first.tasks) == (42, [[4, 1]])


def test_an_archive_without_lines_has_a_commit_at_its_end(archive: LocalArchive) -> None:
    archive.lose(7)
    for _ in range(2):
        commits(archive).write(silent)
    (only,) = rows(archive, schema.commits)
    assert (only.end, only.counts["records"]) == ({"3": 7}, 0)


def test_no_batch_ends_inside_a_record() -> None:
    offsets, places = [0, 0, 1, 1, 1, 2, 5, 5], [0, 1, 0, 1, 2, 0, 0, 1]
    table = pa.table({"offset": offsets, "place": places})
    for most in range(1, 9):
        found = list(whole_records(table.to_batches(max_chunksize=most)))
        assert all(each.column("place")[0].as_py() == 0 for each in found)
        assert pa.Table.from_batches(found) == table
    assert list(whole_records([])) == []


def test_files_are_together_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMMIT_BYTES", 10)
    files = [
        index.IndexedFile("t", "id", 0, n, n + 1, 1, 1, size, {}, 0, "", 0, 0)
        for n, size in enumerate([4, 6, 1, 30, 2, 2])
    ]
    assert [[each.bytes for each in group] for group in together(files)] == [[4, 6], [1], [30], [2, 2]]
