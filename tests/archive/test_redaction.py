"""Lines are erased in a partition's archive, and the sums follow, whatever is killed when."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import sqlalchemy as sa

from sluice.archive import indexing, layout, redaction
from sluice.archive.compaction import PartitionCompaction, PartsChanged
from sluice.archive.file import of_records
from sluice.archive.redaction import PartitionRedaction
from sluice.archive.repair import has_erased
from sluice.archive.verification import Lacking
from sluice.engine.parse import event_time
from sluice.runtime.sections import Archive
from sluice.storage.hdfs import HdfsError
from sluice.storage.tables import schema
from sluice.storage.tables.erasures import ErasedTally, Erasures, FileErasure
from sluice.tasks.topic_spec import TopicSpec
from sluice.transmission.redacted import redact
from tests.archive.local_archive import PLACE, Killed, LocalArchive, batch, line

KILLED_AT = [
    "erasure_noted", "archive_before_rename", "archive_after_rename", "archive_redacted",
    "archive_replaced_deleted",
]  # fmt: skip
#: What the test erases: the lines of these seconds.
ERASED = b":05:01 "
MERGED = layout.merged_name


@pytest.fixture
def archive(tmp_path: Path) -> LocalArchive:
    made = LocalArchive(tmp_path)
    for records in (3, 1, 3):
        made.add(records)
    return made


class SecondEraser:
    """Redacts lines of the first second; each was counted, and filtered out by a task."""

    def __init__(self, erasure: int) -> None:
        self._erasure, self._lines = erasure, 0
        self._days: dict[str, int] = {}

    def __call__(self, lines: pa.Table) -> pa.Table:
        text = lines.column("line").combine_chunks()
        which = np.asarray(pc.match_substring(text, ERASED.decode()))
        ms, timed = event_time(text, TopicSpec())
        for day in (ms[which] // 86_400_000).tolist():
            name = str(np.datetime64(day, "D"))
            self._days[name] = self._days.get(name, 0) + 1
        self._lines += int(which.sum())
        return redact(lines, which, self._erasure, ms, timed)

    @property
    def account(self) -> FileErasure:
        tallies = tuple(ErasedTally("online", day, 1, 1, filtered=n) for day, n in self._days.items())
        return FileErasure(self._lines, self._days, 0, tuple(self._days), tallies)


def begun(archive: LocalArchive, lines: int = 7) -> int:
    """The books as the speed layer left them, and an erasure; returns its number."""
    with archive.database.begin() as connection:
        for day in (17, 18):
            own = {"topic": "logs", "day": date(2015, 5, day)}
            row = {**own, "partition": 3, "lines": lines, "last_offset": 6}
            connection.execute(sa.insert(schema.event_days).values(row))
            tally = {**own, "layer": "online", "task_id": 1, "version": 1, "counted": 0, "filtered": lines}
            connection.execute(sa.insert(schema.tallies).values({**tally, "unmatched": 0, "too_long": 0}))
        for place in ((0, 1), (1, 0)):  # the first is erased, the second is not
            key = {"topic": "logs", "partition": 3, "offset": place[0], "line_in_record": place[1]}
            letter = {"reason": "no event time", "bytes": 1, "line": b"x", "arrived_at": datetime.now(UTC)}
            connection.execute(sa.insert(schema.dead_letters).values({**key, **letter}))
            sample = {"layer": "online", "day": date(2015, 5, 18), "task_id": 1, "version": 1}
            sample |= {"kind": "unmatched", "reason": "r", "bytes": 1, "line": b"x"}
            connection.execute(sa.insert(schema.skipped_lines).values({**key, **sample}))
    return Erasures(archive.database).begin("logs", "client", "x", cut={"3": 7}, user="host:ann").id


def erase(archive: LocalArchive, number: int) -> PartitionRedaction:
    """One run of an erasure over all files, up to the old ones."""
    own = PartitionRedaction(archive.database, PLACE, archive.claims(), number)
    for file in own.standing().values():
        own.redact(file, SecondEraser(number))
    own.sweep()
    return own


def books(archive: LocalArchive) -> Mapping[str, Any]:
    """All that an erasure changes in the books."""

    def rows(table: sa.Table, *names: str) -> list[tuple[Any, ...]]:
        with archive.database.connect() as connection:
            columns = [table.c[name] for name in names]
            return [tuple(row) for row in connection.execute(sa.select(*columns).order_by(*columns))]

    return {
        "event_days": rows(schema.event_days, "day", "lines"),
        "tallies": rows(schema.tallies, "day", "filtered"),
        "dead_letters": rows(schema.dead_letters, "offset", "line_in_record"),
        "skipped_lines": rows(schema.skipped_lines, "offset", "line_in_record"),
        "pruned": rows(schema.pruned, "records", "counted", "dead", "dead_letters", "redacted"),
        "erased_files": rows(schema.erased_files, "first"),
        "counts": rows(schema.erasures, "id") and Erasures(archive.database).all("logs")[0].counts,
    }


DONE = {
    # Line 1 of each file is of the 18th and of the first second, and so is none of the 17th.
    "event_days": [(date(2015, 5, 17), 7), (date(2015, 5, 18), 4)],
    "tallies": [(date(2015, 5, 17), 7), (date(2015, 5, 18), 4)],
    "dead_letters": [(1, 0)],
    "skipped_lines": [(1, 0)],
    "pruned": [(-3, -3, 0, 1, 3)],
    "erased_files": [],
    "counts": {"files": 3, "lines": 3, "counted": 3, "dead": 0},
}


def test_a_redacted_line_stays_in_its_place_and_the_sums_are_less(archive: LocalArchive) -> None:
    number, before = begun(archive), archive.lines_of_files()
    erase(archive, number)
    after = archive.lines_of_files()
    assert archive.lines_of_index() == after
    assert [row[:5] for row in after] == [row[:5] for row in before]
    changed = [(one[5], other[5], other[8]) for one, other in zip(before, after, strict=True) if one != other]
    assert (
        changed
        == [(line(18, 1), b"-" * len(line(18, 1)), f"redacted: by erasure {number}, of 2015-05-18")] * 3
    )
    assert books(archive) == DONE
    assert Erasures(archive.database).get(number).days == (date(2015, 5, 18),)
    found = archive.verified()
    assert (found.problems, found.lines, found.redacted) == ((), 14, 3)
    assert archive.standing() == archive.indexed() == [MERGED(0, 3, 1), MERGED(3, 4, 1), MERGED(4, 7, 1)]
    assert archive.names() == sorted(archive.standing())  # the old files are three days old, and gone
    assert sum(row.redacted for row in archive.rows()) == 3
    assert {day: said[0] for row in archive.rows()[:1] for day, said in row.days.items()} == {
        "2015-05-17": 3, "2015-05-18": 3
    }  # fmt: skip


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("point", KILLED_AT)
def test_wherever_it_is_killed_the_next_run_ends_it_and_each_sum_changes_once(
    archive: LocalArchive, dies: Any, monkeypatch: pytest.MonkeyPatch, point: str, times: int
) -> None:
    number, positions = begun(archive), [row[:5] for row in archive.lines_of_files()]
    dies(point, times)
    with pytest.raises(Killed):
        erase(archive, number)
    monkeypatch.delenv("SLUICE_FAULT")
    assert [row[:5] for row in archive.lines_of_files()] == positions
    assert [row[:5] for row in archive.lines_of_index()] == positions
    assert archive.verified().problems == ()
    indexing.reconcile(archive.database, archive.claims(), PLACE)  # the archiver begins first
    archive.age()
    erase(archive, number)
    assert books(archive) == DONE
    assert archive.lines_of_index() == archive.lines_of_files()
    assert archive.verified().redacted == 3
    assert archive.names() == [MERGED(0, 3, 1), MERGED(3, 4, 1), MERGED(4, 7, 1)]
    archive.age()
    erase(archive, number)  # nothing is left to do
    assert (books(archive), archive.verified().redacted) == (DONE, 3)


def test_a_second_erasure_and_compaction_go_on_from_what_stands(archive: LocalArchive) -> None:
    erase(archive, begun(archive))
    archive.age()
    own = PartitionCompaction(archive.database, PLACE, archive.claims(), Archive())
    assert own.run(set()).made == 1
    assert archive.standing() == [MERGED(0, 7)]
    assert archive.verified().redacted == 3
    archive.add(2)
    number = Erasures(archive.database).begin("logs", "client", "y", cut={}, user="host:ann").id
    erase(archive, number)
    assert archive.standing() == [MERGED(0, 7), MERGED(7, 9, 1)]
    assert archive.verified().redacted == 4


def test_parts_that_a_merged_file_replaced_go_with_it_and_so_do_damaged_copies(archive: LocalArchive) -> None:
    PartitionCompaction(archive.database, PLACE, archive.claims(), Archive()).run(set())
    assert len(archive.names()) == 4
    Path(archive.directory, layout.damaged_name(0, 1)).write_bytes(b"who knows")
    archive.age()
    erase(archive, begun(archive))
    assert archive.names() == archive.standing() == [MERGED(0, 7, 1)]
    assert archive.verified().problems == ()


def test_a_young_file_stays_until_no_sleeper_can_claim_its_name(archive: LocalArchive) -> None:
    number, claims = begun(archive), archive.claims()
    made = of_records(PLACE, 7, [batch([7, 7], [line(17), line(18, 1)], [0, 1])], 1)
    indexing.add(archive.database, [(*claims.publish(made), claims.path(7))])  # it was written just now
    own = erase(archive, number)
    swept = own.sweep()
    assert (swept.deleted, swept.waiting) == (0, 1)
    assert 0 < swept.waits_ms <= redaction.SETTLED_MS
    assert layout.file_name(7) in archive.names()
    assert archive.standing()[-1] == MERGED(7, 8, 1)
    archive.age()
    assert (own.sweep().deleted, archive.names()) == (1, archive.standing())


def test_a_file_that_changed_meanwhile_is_left_alone(archive: LocalArchive) -> None:
    number = begun(archive)
    own = PartitionRedaction(archive.database, PLACE, archive.claims(), number)
    file = own.standing()[3]
    path = Path(archive.directory, file.name)
    path.write_bytes(path.read_bytes())
    other = PartitionRedaction(archive.database, PLACE, archive.claims(), number)
    other.redact(other.standing()[3], SecondEraser(number))
    with pytest.raises(PartsChanged, match="run the command once more"):
        own.redact(file, SecondEraser(number))
    assert books(archive)["counts"] == {"files": 1, "lines": 1, "counted": 1, "dead": 0}
    assert archive.verified().problems == ()


def test_a_file_that_reaches_behind_the_redacted_one_is_not_deleted(archive: LocalArchive) -> None:
    number = begun(archive)
    own = PartitionRedaction(archive.database, PLACE, archive.claims(), number)
    own.redact(own.standing()[0], SecondEraser(number))
    made = of_records(PLACE, 2, [batch([2, 3, 4], [line(17)] * 3)], 1)
    Path(archive.claims().path(2)).write_bytes(made.data)  # copied there by hand
    archive.age()
    with pytest.raises(HdfsError, match="move the one that does not belong there"):
        own.sweep()
    assert layout.file_name(2) in archive.names()


def test_an_archiver_that_indexes_late_brings_no_erased_line_back(archive: LocalArchive) -> None:
    claims = archive.claims()
    late = [(claims.footer(each), each.length, claims.named(each.name)) for each in claims.files()]
    erase(archive, begun(archive))
    indexing.add(archive.database, late)
    assert archive.indexed() == archive.standing() == [MERGED(0, 3, 1), MERGED(3, 4, 1), MERGED(4, 7, 1)]


def test_a_damaged_file_in_which_lines_were_erased_is_not_taken_from_elsewhere(archive: LocalArchive) -> None:
    whole = Lacking(0, 3, damaged=True)
    assert not has_erased(archive.database, PLACE, whole)
    erase(archive, begun(archive))
    assert has_erased(archive.database, PLACE, whole)
    assert not has_erased(archive.database, PLACE, Lacking(7, 9, damaged=False))
