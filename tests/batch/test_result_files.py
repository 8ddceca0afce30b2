"""Files of results: what Spark's driver is told of is shown, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sluice.batch import result_files
from sluice.batch.day_results import RESULTS, to_results
from sluice.batch.result_files import TEMPORARY, FileLost, ResultFiles
from sluice.engine.count import count
from sluice.storage.parquet import table_files
from sluice.storage.stores import Stores
from tests.engine.samples import active, line, plan, records, spec

BY_PATH = spec(dimensions=[{"name": "path", "extract": {"delimiter": " ", "index": 6}}])


def rows_of(paths: int) -> list[pa.RecordBatch]:
    """RESULTS, a row for each path."""
    counted = count(records([line(path=f"/{n}") for n in range(paths)]), plan(BY_PATH)).partials
    return list(to_results(iter(counted.combine_chunks().to_batches()), active(BY_PATH)))


def names(written: list[pa.RecordBatch]) -> list[str]:
    return [name for batch in written for name in batch.column("file").to_pylist()]


def shown(folder: Path) -> pa.Table:
    tables = [pq.read_table(url, schema=RESULTS) for url, _ in table_files(Stores(), str(folder))]
    return pa.concat_tables([RESULTS.empty_table(), *tables])


def test_results_are_read_back_as_they_were(tmp_path: Path) -> None:
    files, rows = ResultFiles(Stores(), str(tmp_path / "day")), rows_of(5)
    files.begin()
    written = list(files.write(rows))
    assert shown(tmp_path / "day").num_rows == 0  # not before the driver has heard of it
    files.publish(names(written))
    assert shown(tmp_path / "day").to_pylist() == pa.Table.from_batches(rows).to_pylist()
    assert sum(written[0].column("rows").to_pylist()) == 5
    assert [path.name for path in (tmp_path / "day").iterdir()] == names(written)


def test_what_a_repeated_task_wrote_before_is_not_shown(tmp_path: Path) -> None:
    files, rows = ResultFiles(Stores(), str(tmp_path)), rows_of(3)
    files.begin()
    first, second = (names(list(files.write(rows))) for _ in range(2))
    assert first != second
    files.publish(second)
    list(files.write(rows))  # by a process that Spark has given up
    assert shown(tmp_path).num_rows == 3


def test_a_day_without_results_is_a_table_without_rows(tmp_path: Path) -> None:
    files = ResultFiles(Stores(), str(tmp_path))
    files.begin()
    assert list(files.write([])) == []
    files.publish([])
    assert len(table_files(Stores(), str(tmp_path))) == 1
    assert shown(tmp_path).num_rows == 0


def test_a_directory_begins_empty(tmp_path: Path) -> None:
    (tmp_path / TEMPORARY).mkdir()
    (tmp_path / "part-of-an-attempt-that-failed.parquet").write_bytes(b"x")
    ResultFiles(Stores(), str(tmp_path)).begin()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    files = ResultFiles(Stores(), str(tmp_path))
    files.begin()
    with pytest.raises(FileLost, match=r"part-x\.parquet is gone"):
        files.publish(["part-x.parquet"])


def test_a_rename_whose_answer_was_lost_is_done(tmp_path: Path) -> None:
    files = ResultFiles(Stores(), str(tmp_path))
    files.begin()
    (name,) = names(list(files.write(rows_of(2))))
    (tmp_path / TEMPORARY / name).rename(tmp_path / name)
    files.publish([name])
    assert shown(tmp_path).num_rows == 2


def test_files_and_row_groups_end_when_they_are_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_files, "GROUP_ROWS", 2)
    monkeypatch.setattr(result_files, "FILE_BYTES", 1)
    rows = [part for batch in rows_of(5) for part in (batch.slice(0, 2), batch.slice(2, 2), batch.slice(4))]
    files = ResultFiles(Stores(), str(tmp_path))
    files.begin()
    written = names(list(files.write(rows)))
    assert len(written) == 3
    files.publish(written)
    assert sorted(shown(tmp_path).column("series").to_pylist()) == [f"/{n}" for n in range(5)]


def test_hive_and_spark_see_the_columns_that_spark_wrote() -> None:
    ((data, _),) = result_files.encoded(rows_of(1))
    schema = pq.ParquetFile(pa.BufferReader(data)).schema
    text = "optional binary field_id=-1 {} (String)"
    time = "Timestamp(isAdjustedToUTC=true, timeUnit=microseconds"
    found = str(schema)
    assert text.format("series") in found
    assert f"optional int64 field_id=-1 period_start ({time}" in found
    for name in ("dims", "results", "accumulators", "texts", "errors"):
        assert (
            f"optional group field_id=-1 {name} (Map) {{\n    repeated group field_id=-1 key_value {{"
            in found
        )
    assert found.count("required binary field_id=-1 key (String)") == 5
