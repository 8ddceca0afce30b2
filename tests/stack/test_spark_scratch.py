"""What killed processes of Spark left is deleted, and nothing of those that run."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from sluice.runtime.settings import Settings
from sluice.stack import spark_scratch


@pytest.mark.slow
def test_what_is_older_than_every_process_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_scratch, "CLOCK_SECONDS", 0.0)
    old = [tmp_path / "spark/tmp/blockmgr-1", tmp_path / "tmp/spark/spark-1"]
    other, young = tmp_path / "tmp/spark/mine", tmp_path / "spark/tmp/spark-2"
    for path in (*old, other):
        path.mkdir(parents=True)
        (path / "file").write_text("")
    settings = Settings(instance="test", home=tmp_path)
    time.sleep(1.5)  # psutil takes the start of a process to be up to a second earlier than it was
    option = f"-Djava.io.tmpdir={tmp_path}/tmp/spark"
    running = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", option])
    try:
        time.sleep(0.5)
        young.mkdir()
        assert spark_scratch.delete_leftovers(settings) == 2
        assert [path.exists() for path in (*old, other, young)] == [False, False, True, True]
    finally:
        running.kill()
        running.wait()
    time.sleep(0.1)
    assert spark_scratch.delete_leftovers(settings) == 1  # nothing runs any more
    assert not young.exists()
