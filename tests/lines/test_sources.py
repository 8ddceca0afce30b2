"""Where lines are: a file's rows, old and new, and what Kafka still has."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluice.archive import merging
from sluice.archive.file import COLUMNS, ArchivedPartition, of_records
from sluice.archive.layout import merged_name
from sluice.lines import sources as module
from sluice.lines.pieces import ArchivedPiece
from sluice.lines.sources import Sources, _kept
from sluice.runtime.positions import Era, PartitionLog, position_at
from sluice.runtime.settings import Settings
from sluice.storage.hdfs import HdfsFileNotFound
from sluice.storage.stores import LocalStore
from sluice.transmission.line_schema import LINE_SCHEMA
from tests.engine.samples import line, records


class Local:
    """Files on this machine in place of HDFS."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def at(self, url: str) -> tuple[Any, str]:
        path = self.folder / Path(url).name
        if not path.exists():
            return SimpleNamespace(read=self.missing), str(path)
        return LocalStore(), str(path)

    def missing(self, *_: object) -> bytes:
        raise HdfsFileNotFound("no such file in HDFS")


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sources:
    monkeypatch.setattr(module, "Stores", SimpleNamespace(of=lambda _: Local(tmp_path)))
    return Sources(Settings(), "logs", [], {}, {})


def file(path: Path) -> Any:
    size = path.stat().st_size if path.exists() else 10
    return SimpleNamespace(path=f"/raw/{path.name}", bytes=size, partition=3, lines=7, first=0, arrival_min=1)


def piece(path: Path) -> ArchivedPiece:
    return ArchivedPiece(file(path), 1, 7, 10)


def test_a_file_s_rows_are_the_records_that_were_archived(sources: Sources, tmp_path: Path) -> None:
    batch = records([line(path=f"/{n}") for n in range(50)], partition=3)
    path = tmp_path / "a.parquet"
    path.write_bytes(of_records(ArchivedPartition("logs", "id", 3), 0, [batch], 1).data)
    (found,) = sources.in_file(piece(path))
    assert found.equals(batch)


#: Columns that files did not have at first.
LATER = {"forged", "line_in_record", "unreadable", "last_offset"}


def test_a_file_from_before_blocks_and_proofs_is_read_too(sources: Sources, tmp_path: Path) -> None:
    batch = records([line()], partition=3)
    names = [name for name in COLUMNS.names if name not in LATER]
    path = tmp_path / "old.parquet"
    pq.write_table(pa.Table.from_batches([batch]).select(names), path)
    (found,) = sources.in_file(piece(path))
    assert found.schema == LINE_SCHEMA
    assert found.column("line").to_pylist() == [line()]
    assert all(found.column(name).null_count == 1 for name in LATER)


def test_a_file_that_is_gone_has_no_rows_and_is_named(sources: Sources, tmp_path: Path) -> None:
    assert list(sources.in_file(piece(tmp_path / "gone.parquet"))) == []
    assert sources.gone == ["the archive's file /raw/gone.parquet with 7 lines is gone"]


def test_of_a_merged_file_only_the_parts_of_that_time_are_read(
    sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "GROUP_BYTES", 1)
    batches = [records([line(path=f"/{n}")], partition=3, first=n) for n in range(3)]
    place = ArchivedPartition("logs", "id", 3)
    parts = [of_records(place, n, [each], 1) for n, each in enumerate(batches)]
    made = merging.merged((f"/raw/{part.footer.name}", pa.BufferReader(part.data)) for part in parts)
    path = tmp_path / made.footer.name
    path.write_bytes(made.data)
    first, last = made.footer.event_min, made.footer.event_max
    assert first is not None
    assert last is not None
    sources._take([file(path)], (first, last + 1))
    assert [each.group for each in sources.files] == [0, 1, 2]
    assert [batch for each in sources.files for batch in sources.in_file(each)] == batches
    sources._take([file(path)], (last + 1, last + 2))
    assert sources.files == []
    sources._take([file(tmp_path / merged_name(3, 9))], (first, last + 1))
    assert (sources.files, len(sources.gone)) == ([], 1)


def test_what_left_kafka_before_it_was_archived_is_named() -> None:
    one, cut = Era(0, "id", 0, 0), Era(1, "id", 15, 1, 18)
    logs = dict.fromkeys(range(3), PartitionLog((one,))) | {3: PartitionLog((one, cut))}
    rest = {"0": (10, 20), "1": (5, 9), "2": (0, 3), "3": (12, position_at(1, 30))}
    kept, gone = _kept("logs", rest, logs, {"0": 15, "1": 0, "2": 100, "3": 0})
    assert kept == {"0": (15, 20), "1": (5, 9), "3": (12, position_at(1, 30))}
    assert [each.partition(" left")[0] for each in gone] == [
        "5 records of logs/0 from offset 10 on",
        "3 records of logs/2 from offset 0 on",
        "3 records of logs/3 from offset 12 on",
    ]
    assert _kept("logs", {"0": (10, 20)}, logs, {})[0] == {}  # the topic was deleted
