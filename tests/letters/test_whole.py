"""A letter's whole line is found where it is: in the table, in the archive, in Kafka, or nowhere."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from sluice.archive.file import COLUMNS, ArchivedPartition, of_records
from sluice.letters import whole as module
from sluice.letters.whole import WholeLines
from sluice.runtime.settings import Settings
from sluice.speed.source import RecordsGone, Slice
from sluice.storage.tables import schema
from sluice.transmission.line_schema import LINE_IN_RECORD
from tests.engine.samples import records
from tests.letters.made import letter
from tests.lines.test_sources import Local
from tests.tasks.database import sqlite

LONG = [b"a long line %d " % n * 500 for n in range(4)]


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> sa.Engine:
    made = sqlite()
    monkeypatch.setattr(module, "engine", lambda _: made)
    monkeypatch.setattr(module, "Stores", SimpleNamespace(of=lambda _: Local(tmp_path)))
    return made


def indexed(database: sa.Engine, path: Path, first: int, after: int) -> None:
    """A row of the archive's index."""
    row = {"topic": "logs", "topic_id": "id", "partition": 0, "first": first, "next": after, "days": {}}
    row |= {"records": after - first, "lines": after - first, "unparsed": 0, "arrival_min": 0}
    row |= {"bytes": path.stat().st_size if path.exists() else 9, "path": f"/raw/{path.name}"}
    names = [column.name for column in schema.archive_files.columns if column.server_default is None]
    wanted = {name: row.get(name, 0) for name in names}
    with database.begin() as connection:
        connection.execute(sa.insert(schema.archive_files).values(wanted))


def cut(number: int, **changed: Any) -> Any:
    """A letter of which the table has the beginning."""
    return letter(number, LONG[number % 4][:40], size=len(LONG[number % 4]), **changed)


def test_a_short_line_is_whole_in_the_table(database: sa.Engine) -> None:
    assert WholeLines(Settings(), "logs").line(letter(3, b"all of it")) == b"all of it"


def test_what_could_not_be_read_has_no_line(database: sa.Engine) -> None:
    assert WholeLines(Settings(), "logs").line(letter(unreadable="undecodable: x")) is None


def test_a_long_line_is_in_the_archive(database: sa.Engine, tmp_path: Path) -> None:
    for name, first in (("a", 0), ("b", 4)):
        path = tmp_path / f"{name}.parquet"
        data = of_records(ArchivedPartition("logs", "id", 0), first, [records(LONG, first=first)], 1).data
        path.write_bytes(data)
        indexed(database, path, first, first + 4)
    lines = WholeLines(Settings(), "logs")
    assert [line for _, line in lines.of(map(cut, (1, 3, 6)))] == [LONG[1], LONG[3], LONG[2]]
    assert lines.line(cut(2, line_in_record=5)) is None


def test_of_a_merged_file_only_the_row_group_with_the_line_is_read(
    database: sa.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "merged.parquet"
    table = pa.Table.from_batches([records([*LONG, *LONG])]).select(COLUMNS.names)
    pq.write_table(table, path, row_group_size=2)
    indexed(database, path, 0, 8)
    read, real = [], pq.ParquetFile.read_row_group

    def noted(self: pq.ParquetFile, group: int, *arguments: Any, **named: Any) -> pa.Table:
        read.append(group)
        return real(self, group, *arguments, **named)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", noted)
    lines = WholeLines(Settings(), "logs")
    assert [line for _, line in lines.of(map(cut, (2, 3, 6)))] == [LONG[2], LONG[3], LONG[2]]
    assert read == [1, 3]


def test_a_record_whose_lines_lie_in_two_row_groups(database: sa.Engine, tmp_path: Path) -> None:
    path = tmp_path / "merged.parquet"
    table = pa.Table.from_batches([records(LONG)]).select(COLUMNS.names)
    for name, values in (("offset", [0, 1, 1, 2]), (LINE_IN_RECORD, [0, 0, 1, 0])):
        at = table.schema.get_field_index(name)
        table = table.set_column(at, COLUMNS.field(name), pa.array(values, COLUMNS.field(name).type))
    pq.write_table(table, path, row_group_size=2)
    indexed(database, path, 0, 3)
    letters = [letter(1, LONG[n + 1][:40], size=len(LONG[n + 1]), line_in_record=n) for n in (0, 1)]
    assert [line for _, line in WholeLines(Settings(), "logs").of(letters)] == LONG[1:3]


def test_a_file_from_before_blocks_has_a_line_a_record(database: sa.Engine, tmp_path: Path) -> None:
    path = tmp_path / "old.parquet"
    names = [name for name in COLUMNS.names if name not in {"forged", "line_in_record"}]
    pq.write_table(pa.Table.from_batches([records(LONG)]).select(names), path)
    indexed(database, path, 0, 4)
    assert WholeLines(Settings(), "logs").line(cut(2)) == LONG[2]


def test_a_file_that_is_gone_has_no_line(database: sa.Engine, tmp_path: Path) -> None:
    indexed(database, tmp_path / "gone.parquet", 0, 4)
    assert WholeLines(Settings(), "logs").line(cut(1)) is None


def test_what_is_not_archived_is_in_kafka(database: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, Any]] = []
    held: list[Any] = [[records(LONG)]]

    def of(settings: Any, topic: str, start: Any, end: Any, logs: Any, *, checked: bool) -> Any:
        asked.append((start, end))
        return SimpleNamespace(parts=lambda most: held)

    monkeypatch.setattr(module, "TopicRange", SimpleNamespace(of=of))
    assert WholeLines(Settings(), "logs").line(cut(1)) == LONG[1]
    assert asked == [({"0": 1}, {"0": 2})]

    class Expired:
        def __iter__(self) -> Any:
            raise RecordsGone("logs", Slice(0, 1, 2))

    held[:] = [Expired()]
    assert WholeLines(Settings(), "logs").line(cut(1)) is None
    held[:] = []
    assert WholeLines(Settings(), "logs").line(cut(1)) is None
