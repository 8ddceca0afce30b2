"""Spark jobs whose workers read Parquet themselves, from HDFS."""

from __future__ import annotations

import io
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.batch.scan import SHARE_BYTES, scanned, share_count
from sluice.runtime.settings import Settings
from sluice.storage.hdfs import HdfsStore, HdfsUnavailable
from sluice.storage.parquet import table_files
from sluice.storage.stores import Stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NUMBERS = pa.schema([("number", pa.int64())])
COLUMNS = {"number": pa.int64()}
FILES, ROWS, GROUP = 3, 1_000, 100


@given(st.integers(0, 1 << 40), st.integers(1, 64))
def test_each_core_has_equally_many_shares_none_too_large(size: int, cores: int) -> None:
    shares = share_count(size, cores)
    assert shares % cores == 0
    assert size <= shares * SHARE_BYTES
    assert shares == cores or size > (shares - cores) * SHARE_BYTES


@pytest.fixture
def table(stack: Settings) -> Iterator[str]:
    """The URL of a directory of Parquet files in HDFS."""
    store, path = HdfsStore.of(stack), f"/sluice/tmp/scan-{secrets.token_hex(4)}"
    for n in range(FILES):
        out = io.BytesIO()
        numbers = pa.table({"other": ["x"] * ROWS, "number": range(n * ROWS, (n + 1) * ROWS)})
        pq.write_table(numbers, out, row_group_size=GROUP)
        store.write(f"{path}/{n}.parquet", out.getvalue())
    yield stack.hdfs.namenode + path
    store.delete(path, recursive=True)


@pytest.mark.stack
def test_every_row_is_read_once_although_a_task_fails_at_first(
    stack: Settings, spark: SparkSession, table: str, tmp_path: Path
) -> None:
    failed = tmp_path / "failed"

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if 0 in batch.column("number").to_pylist() and not failed.exists():
                failed.touch()
                raise HdfsUnavailable("no DataNode has the block")

    stores = Stores.of(stack)
    found = scanned(spark, stores, table_files(stores, table), COLUMNS, work=work, schema=NUMBERS)
    numbers = sorted(row.number for row in found.collect())
    assert failed.exists()
    assert numbers == list(range(FILES * ROWS))


@pytest.mark.stack
def test_no_files_are_no_rows(stack: Settings, spark: SparkSession) -> None:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    assert scanned(spark, Stores.of(stack), [], COLUMNS, work=work, schema=NUMBERS).collect() == []
