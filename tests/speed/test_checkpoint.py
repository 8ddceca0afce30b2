"""The installed Spark writes its offsets in the form that is read here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from sluice.speed.checkpoint import UnknownCheckpoint, end_offsets


@pytest.mark.slow
def test_the_end_of_each_batch_is_read_from_a_checkpoint_of_the_installed_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

    class Reader(SimpleDataSourceStreamReader):
        """Three more records of one partition in each batch; offsets look like Kafka's."""

        def initialOffset(self) -> dict[str, Any]:
            return {"logs": {"0": 0}}

        def read(self, start: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
            first = start["logs"]["0"]
            return iter([(n,) for n in range(first, first + 3)]), {"logs": {"0": first + 3}}

        def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Any:
            return iter([(n,) for n in range(start["logs"]["0"], end["logs"]["0"])])

    class Numbers(DataSource):
        @classmethod
        def name(cls) -> str:
            return "numbers"

        def schema(self) -> str:
            return "value int"

        def simpleStreamReader(self, schema: Any) -> Reader:
            return Reader()

    ends: list[dict[str, int]] = []

    def batch(lines: DataFrame, batch_id: int) -> None:
        ends.append(end_offsets(tmp_path, "logs", batch_id))  # Spark wrote it before the batch
        if len(ends) > 1:
            raise RuntimeError("enough")

    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        spark.dataSource.register(Numbers)
        stream = spark.readStream.format("numbers").load().writeStream.foreachBatch(batch)
        query = stream.option("checkpointLocation", tmp_path.as_uri()).start()
        with pytest.raises(Exception, match="enough"):
            query.awaitTermination(60)
    finally:
        spark.stop()
    assert ends == [{"0": 3}, {"0": 6}]


@pytest.mark.parametrize("text", ["v2\n{}\n{}", "v1\n{}\n{}\n{}", "v1\n{}", ""])
def test_another_form_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text(text)
    with pytest.raises(UnknownCheckpoint, match="the one that requirements"):
        end_offsets(tmp_path, "logs", 0)
