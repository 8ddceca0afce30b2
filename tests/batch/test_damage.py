"""An error about a file of the archive is told with the file and the remedy; any other is not."""

from __future__ import annotations

import pytest

from sluice.batch.damage import damaged_file
from sluice.runtime.settings import Settings

FILE = "/sluice/raw/logs/id/0/00000000000000000300.parquet"


@pytest.mark.parametrize(
    "said",
    [
        "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file hdfs://h:9000{}. SQLSTATE: KD001",
        "[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file hdfs://h:9000{}. ",
        "[FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER] Could not read footer for file: hdfs://h:9000{} SQLSTATE",
        "java.io.FileNotFoundException: File does not exist: {}",
    ],
)
def test_the_file_is_named(said: str) -> None:
    settings = Settings(instance="test")
    path = settings.hdfs.raw + FILE.removeprefix("/sluice/raw")
    found = damaged_file(settings, "logs", RuntimeError(f"Job aborted:\n{said.format(path)}\n\tat ..."))
    assert found is not None
    assert found.startswith(f"the archive's file {path} cannot be read: ")
    assert "sluice archive repair logs" in found


@pytest.mark.parametrize("said", ["", "reading file hdfs://h:9000/elsewhere/a.parquet.", "a task failed"])
def test_any_other_error_is_no_damage(said: str) -> None:
    assert damaged_file(Settings(instance="test"), "logs", RuntimeError(said)) is None
