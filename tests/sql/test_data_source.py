"""The data source as Spark calls it: options and filters in, shares and Arrow batches out."""

from __future__ import annotations

import importlib.util
import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import EqualTo, Filter, GreaterThanOrEqual, In, LessThan, StringStartsWith

from sluice.runtime.settings import Settings
from sluice.sql import columns, data_source
from sluice.sql.data_source import NAME, ResultsSource
from sluice.stack.daemons.hive import configure_python, python_modules
from sluice.tasks import store
from sluice.tasks.spec import ActiveTask
from tests.results.questions import BEGIN, FIRST, ask, stored, task
from tests.results.stored import DAY, Stored

GIVEN = [(hour, hour % 3, hour % 5, hour) for hour in range(72)]
LONG = [name for name, _, _ in columns.LONG]
TYPED = ["period", "client", "path", "count", "state"]


@pytest.fixture
def layers(monkeypatch: pytest.MonkeyPatch) -> Stored:
    """A task with two versions, of which both have the same results; its first day is final."""
    made = stored(task(), GIVEN, frozenset([FIRST // DAY]))

    def version(task_id: int, version: int) -> ActiveTask:
        return ActiveTask(task_id, version, made.of.spec)

    found = SimpleNamespace(
        list=lambda: [SimpleNamespace(task_id=1, name="sample", version=2)], version=version
    )
    monkeypatch.setattr(data_source, "_layers", lambda: made)
    monkeypatch.setattr(store, "TaskStore", lambda _: found)
    return made


def scanned(wanted: list[str], filters: list[Filter], **options: str) -> list[dict[str, Any]]:
    """What Spark reads with these options and filters; the reader goes to workers by pickle."""
    reader = ResultsSource(options).reader(SimpleNamespace(fieldNames=lambda: wanted))
    assert list(reader.pushFilters(filters)) == filters
    own = pickle.loads(pickle.dumps((reader, reader.partitions())))  # noqa: S301
    rows: list[dict[str, Any]] = []
    for partition in own[1] or [None]:
        for batch in own[0].read(partition):
            assert isinstance(batch, pa.RecordBatch)
            rows += batch.to_pylist()
    return rows


@pytest.mark.slow
def test_a_task_s_table_reads_the_version_of_its_options(layers: Stored) -> None:
    rows = scanned(TYPED, [], task="1", version="1")
    assert rows == [{k: row[k] for k in rows[0]} for row in ask(layers)]


def test_its_filters_are_conditions_of_the_query(layers: Stored) -> None:
    """These are all that is read: nothing but the filters was told."""
    until = BEGIN.replace(day=18)
    filters: list[Filter] = [
        GreaterThanOrEqual(("period",), BEGIN),
        LessThan(("period",), until),
        EqualTo(("client",), "c1"),
        StringStartsWith(("path",), "/img"),
    ]
    rows = scanned(["client", "path", "period"], filters, task="1", version="1")
    assert rows
    for row in rows:
        assert (row["client"], row["path"][:4], row["period"] < until) == ("c1", "/img", True)
    assert layers.read_blocks > 0
    read = layers.read_blocks
    assert scanned(TYPED, [GreaterThanOrEqual(("period",), until)], task="1", version="1")
    assert layers.read_blocks == read


@pytest.mark.parametrize(
    ("filters", "versions", "metrics"),
    [
        ([], {1, 2}, {"count", "sum", "avg", "min", "max", "missing"}),
        ([EqualTo(("version",), 2), In(("metric",), ["sum", "p50"])], {2}, {"sum"}),
        ([EqualTo(("task",), "another")], set(), set()),
        ([EqualTo(("metric",), "p50")], set(), set()),
        ([EqualTo(("version",), 3)], set(), set()),
    ],
)
def test_results_reads_the_versions_and_metrics_that_are_asked_for(
    layers: Stored, filters: list[Filter], versions: set[int], metrics: set[str]
) -> None:
    rows = scanned(LONG, filters)
    assert {row["version"] for row in rows} == versions
    assert {row["metric"] for row in rows} == metrics


def test_contradictory_conditions_read_nothing(layers: Stored) -> None:
    assert scanned(LONG, [LessThan(("period",), BEGIN), GreaterThanOrEqual(("period",), BEGIN)]) == []
    assert layers.read_blocks == 0


SHOW = """
import sys
from sluice.sql.data_source import ResultsSource
import pyspark_sluice
print(pyspark_sluice.DefaultSource is ResultsSource, "sluice.results.reader" in sys.modules)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "loaded"),
    [
        ("pyspark.sql.worker.data_source_pushdown_filters", True),
        ("pyspark.sql.worker.create_data_source", False),
    ],
)
def test_spark_finds_the_source_and_planners_fork_from_a_loaded_process(
    tmp_path: Path, module: str, loaded: bool
) -> None:
    settings = Settings(instance="test", home=tmp_path)
    configure_python(settings)
    assert importlib.util.find_spec(module) is not None
    path = os.pathsep.join([str(python_modules(settings)), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", SHOW, module],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["True", str(loaded)], done.stderr
    assert NAME == "sluice"
