"""All lines of a topic come in order: from the archive's files, also those replaced meanwhile, and Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa

from sluice.archive import index, indexing
from sluice.archive.compaction import PartitionCompaction
from sluice.archive.file import ArchivedPartition, of_records
from sluice.archive.footer import UnreadableArchiveFile
from sluice.letters import archived_lines as module
from sluice.letters.archived_lines import ArchivedLines
from sluice.letters.line_replay import ReplayReport
from sluice.runtime.sections import Archive
from sluice.runtime.settings import Settings
from sluice.speed.source import RecordsGone, Slice
from sluice.storage.hdfs import HdfsFileNotFound
from sluice.storage.stores import LocalStore
from sluice.storage.tables import schema
from tests.archive.local_archive import PLACE, LocalArchive, batch, line

#: When `local_archive` lets its lines arrive.
BEGAN = datetime.fromtimestamp(1_700_000_000, UTC)
EVER = BEGAN - timedelta(days=1), BEGAN + timedelta(days=1)
#: Lines of a record that `LocalArchive.add` makes.
PAIR = 2


class Hdfs(LocalStore):
    """Files of this machine under the addresses of HDFS."""

    def __init__(self, settings: Settings) -> None:
        self._address = settings.hdfs.namenode

    def of(self, _: Settings) -> Hdfs:
        return self

    def at(self, url: str) -> tuple[Hdfs, str]:
        return self, url.removeprefix(self._address)

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        try:
            return super().read(path, offset, length)
        except FileNotFoundError:
            raise HdfsFileNotFound(path) from None


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalArchive:
    """Three files of 3, 1 and 3 records, each of two lines."""
    made = LocalArchive(tmp_path)
    for each in (module, index):
        monkeypatch.setattr(each, "engine", lambda _: made.database)
    monkeypatch.setattr(module, "Stores", Hdfs(made.settings))
    for records in (3, 1, 3):
        made.add(records)
    return made


def lines(
    archive: LocalArchive, report: ReplayReport, since: datetime = EVER[0], until: datetime = EVER[1]
) -> Iterator[pa.RecordBatch]:
    return ArchivedLines(archive.settings, "logs", since, until, report).portions()


def places(batches: Iterator[pa.RecordBatch]) -> list[tuple[int, int]]:
    return [(row["offset"], row["line_in_record"]) for each in batches for row in each.to_pylist()]


def whole(records: int) -> list[tuple[int, int]]:
    return [(n // PAIR, n % PAIR) for n in range(PAIR * records)]


def test_files_come_in_order_and_small_ones_together(archive: LocalArchive) -> None:
    report = ReplayReport()
    found = list(lines(archive, report))
    assert len(found) == 1
    assert places(iter(found)) == whole(7)
    assert set(found[0].column("partition").to_pylist()) == {3}
    assert not report.refused


def test_a_portion_is_bounded(archive: LocalArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    archive.add(40)
    monkeypatch.setattr(module, "PORTION_LINES", 16)
    found = list(lines(archive, ReplayReport()))
    assert max(map(len, found)) <= 16
    assert places(iter(found)) == whole(47)


def test_what_arrived_before_or_after_is_left_out(archive: LocalArchive) -> None:
    report = ReplayReport()
    second, fifth = (BEGAN + timedelta(milliseconds=ms) for ms in (2, 5))
    assert places(lines(archive, report, second, fifth)) == whole(5)[4:]
    assert report.refused == {"arrived before 2023-11-14 22:13 UTC": 4}
    assert places(lines(archive, report, fifth)) == whole(7)[10:]
    assert report.refused == {"arrived before 2023-11-14 22:13 UTC": 4 + 10}


def test_files_that_are_merged_meanwhile_are_read_on(
    archive: LocalArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PORTION_LINES", 4)  # the first portion ends inside the first file
    portions = lines(archive, ReplayReport())
    found = places(iter([next(portions)]))
    assert found == whole(2)
    done = PartitionCompaction(archive.database, PLACE, archive.claims(), Archive()).run(set())
    assert (done.merged, done.made) == (3, 1)
    for name in set(archive.names()) - set(archive.indexed()):
        (Path(archive.directory) / name).unlink()
    assert found + places(portions) == whole(7)


def test_a_file_that_is_lost_is_counted_and_the_rest_comes(archive: LocalArchive) -> None:
    (Path(archive.directory) / archive.indexed()[0]).unlink()
    report = ReplayReport()
    assert places(lines(archive, report)) == whole(7)[6:]
    assert report.refused == {"in a file that the archive has lost: `sluice archive verify`": 6}


def test_a_damaged_file_is_named(archive: LocalArchive) -> None:
    path = Path(archive.directory) / archive.indexed()[1]
    path.write_bytes(b"\0" * path.stat().st_size)
    with pytest.raises(UnreadableArchiveFile, match=path.name):
        list(lines(archive, ReplayReport()))


def test_another_incarnation_of_the_topic_comes_where_its_positions_are(archive: LocalArchive) -> None:
    """Its id says nothing of when it was."""
    again = ArchivedPartition("logs", "an id before", 3)
    made = of_records(again, 7, [batch([7], [line(17)])], 1)
    other = LocalArchive(archive.folder / "other", archive.database)
    path = Path(other.directory) / made.footer.name
    path.parent.mkdir(parents=True)
    path.write_bytes(made.data)
    indexing.add(archive.database, [(made.footer, len(made.data), str(path))])
    assert places(lines(archive, ReplayReport())) == [*whole(7), (7, 0)]


class Kafka:
    """What Kafka has; nothing is there any more once `gone` was called."""

    def __init__(self, gone: Callable[[], object] | None = None) -> None:
        self.asked: list[Any] = []
        self._gone = gone

    def of(self, settings: Any, topic: str, start: Any, end: Any, logs: Any, *, checked: bool) -> Any:
        self.asked.append((start["3"], end["3"]))
        return SimpleNamespace(parts=lambda most: [self._part(start["3"], end["3"])])

    def _part(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        if self._gone is not None:
            self._gone()
            raise RecordsGone("logs", Slice(3, start, end))
        yield batch(range(start, end), [line(18)] * (end - start))


def commit(archive: LocalArchive, end: int) -> None:
    """The speed layer has counted up to there."""
    row = {"topic": "logs", "seq": 1, "token": "t", "topic_id": "id", "committed_at": datetime.now(UTC)}
    row |= {"start": {}, "end": {"3": end}, "tasks": [], "counts": {}}
    with archive.database.begin() as connection:
        connection.execute(sa.insert(schema.commits).values(row))


def test_what_is_counted_and_not_archived_comes_from_kafka(
    archive: LocalArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(archive, 9)
    kafka = Kafka()
    monkeypatch.setattr(module, "TopicRange", kafka)
    assert places(lines(archive, ReplayReport())) == [*whole(7), (7, 0), (8, 0)]
    assert kafka.asked == [(7, 9)]


def test_what_left_kafka_meanwhile_is_looked_for_in_the_archive(
    archive: LocalArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(archive, 9)
    kafka = Kafka(gone=lambda: archive.add(2))
    monkeypatch.setattr(module, "TopicRange", kafka)
    report = ReplayReport()
    assert places(lines(archive, report)) == whole(9)
    assert kafka.asked == [(7, 9)]
    assert not report.refused


def test_what_is_nowhere_is_counted(archive: LocalArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(archive, 9)
    monkeypatch.setattr(module, "TopicRange", Kafka(gone=lambda: None))
    report = ReplayReport()
    assert places(lines(archive, report)) == whole(7)
    assert report.refused == {"records that left Kafka before they were archived": 2}
