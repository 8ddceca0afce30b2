"""The process from which Spark's Python workers are forked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sluice.runtime.settings import Settings
from sluice.spark.session import session_config
from sluice.stack.environment import spark_home

THREADS = """
import pathlib
from sluice.spark.warm import warm
from sluice.spark.worker_daemon import prepare
prepare(warm)
print(*(each.read_text().strip() for each in pathlib.Path("/proc/self/task").glob("*/comm")), sep="\\n")
"""


@pytest.mark.slow
def test_a_fork_finds_no_thread_pool_that_was_started() -> None:
    """A child has none of its parent's threads, so a pool used before would never answer."""
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=True)
    names = set(done.stdout.split("\n"))
    assert not [name for name in names if name.startswith(("polars-0", "polars-1", "Arrow", "pool"))], names


ARCHIVES = """
import sys
from sluice.spark.worker_daemon import prepare
prepare(lambda: None)
print(*sys.path, *sys.path_importer_cache, sep="\\n")
import pyspark.worker
print(pyspark.worker.__file__)
"""


@pytest.mark.slow
def test_workers_search_no_archives(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in the archives that Spark puts first on the path is installed as well."""
    archive = next((spark_home() / "python" / "lib").glob("pyspark.zip"))
    monkeypatch.setenv("PYTHONPATH", str(archive))
    done = subprocess.run([sys.executable, "-c", ARCHIVES], capture_output=True, text=True, check=True)
    *path, worker = done.stdout.splitlines()
    assert not [each for each in path if each.startswith(str(archive))]
    assert Path(worker).parent == spark_home()


@pytest.mark.parametrize(("master", "ours"), [("local[2]", True), ("spark://127.0.0.1:7077", False)])
def test_executors_elsewhere_have_the_package_only_after_the_fork(
    master: str, ours: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("SLUICE_SPARK__MASTER", master)
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path))
    config = session_config(Settings(instance="test"))
    assert ("spark.python.daemon.module" in config) == ours
    assert ("spark.executorEnv.NUMBA_CACHE_LOCATOR_CLASSES" in config) != ours
