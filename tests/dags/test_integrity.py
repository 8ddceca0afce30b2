"""Every DAG imports, says who it is, tries again and does nothing while it is parsed."""

from __future__ import annotations

import ast
import copy
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "dags").glob("*.py"))
FOR_EVER = {"collection", "placement", "speed_layer", "archive", "rebuild"}
ALL = FOR_EVER | {"nightly_batch", "reconcile", "retention", "task_backfill", "compaction"}


def problems(dag: Any) -> list[str]:
    """What a DAG lacks of what Sluice asks of each DAG."""
    found = []
    if not dag.tags or "sluice" not in dag.tags:
        found.append("no tag")
    if not (dag.doc_md or "").strip():
        found.append("no documentation")
    if not dag.description:
        found.append("no description")
    if dag.catchup:
        found.append("catches up")
    if dag.start_date is None or dag.start_date.tzinfo is None:
        found.append("no start date with a time zone")
    for task in dag.tasks:
        if task.owner != "sluice":
            found.append(f"{task.task_id}: owned by {task.owner}")
        if not task.retries:
            found.append(f"{task.task_id}: no retries")
        if task.retries and not task.retry_delay:
            found.append(f"{task.task_id}: no delay between retries")
    return found


def import_dag_file(path: Path, watched_io: Callable) -> list[str]:
    """Import the file again, with its imports loaded already; returns its I/O."""
    spec = importlib.util.spec_from_file_location(f"watched_{path.stem}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    with watched_io() as seen:
        spec.loader.exec_module(module)
    return seen


def test_all_dags_import(bag: Any) -> None:
    assert bag.import_errors == {}
    assert set(bag.dags) == ALL


@pytest.mark.parametrize("dag", sorted(ALL))
def test_dag_is_in_order(bag: Any, dag: str) -> None:
    assert problems(bag.dags[dag]) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_parsing_does_nothing_to_the_outside(bag: Any, path: Path, watched_io: Callable) -> None:
    assert import_dag_file(path, watched_io) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_dag_files_compose_and_hold_no_logic(path: Path) -> None:
    logic = (ast.FunctionDef, ast.ClassDef, ast.For, ast.While, ast.If, ast.Try)
    assert [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, logic)] == []


def test_parsing_imports_nothing_slow() -> None:
    """Each parse and each task start pays for what a DAG's file imports."""
    import subprocess

    code = (
        "import sys; sys.path.append('plugins'); from airflow.dag_processing.dagbag import DagBag;"
        "DagBag('dags'); print([m for m in ('pyspark', 'pandas', 'great_expectations', 'kafka', 'pyarrow')"
        " if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert out.stdout.splitlines()[-1] == "[]"


def test_only_the_placement_waits_until_somebody_unpauses_it(bag: Any) -> None:
    assert [dag for dag in sorted(ALL) if bag.dags[dag].is_paused_upon_creation] == ["placement"]


def test_schedules(bag: Any) -> None:
    for dag in FOR_EVER:
        assert type(bag.dags[dag].timetable).__name__ == "ContinuousTimetable"
        assert bag.dags[dag].max_active_runs == 1
    nightly = bag.dags["nightly_batch"]
    assert type(nightly.timetable).__name__ == "CronDataIntervalTimetable"
    assert nightly.timetable.expression == "0 0 * * *"  # the data interval is the day of event time
    assert str(nightly.timetable.timezone) == "UTC"
    assert nightly.max_active_runs == 2
    batch, every_topic = nightly.tasks
    assert every_topic.upstream_list == [batch]
    assert batch._conn_id == "spark_default"
    assert [asset.name for asset in batch.outlets] == ["results"]
    assert list(bag.dags["reconcile"].timetable.asset_condition.objects) == batch.outlets


def filled(params: Any, conf: dict[str, Any]) -> dict[str, Any]:
    """What the form gives with this configuration."""
    own = copy.deepcopy(params)
    own.update(conf)
    return own.validate()


def test_the_form_of_a_night_takes_a_day_and_topics_or_nothing(bag: Any) -> None:
    from airflow.sdk.exceptions import ParamValidationError

    params = bag.dags["nightly_batch"].params
    assert params.validate() == {"day": None, "topics": None}  # as for a scheduled run
    for given in ({"day": "2015-05-17", "topics": ["logs"]}, {"day": None, "topics": None}):
        assert filled(params, given) == given
    for wrong in ({"day": "17/05/2015"}, {"day": "2015-02-30"}, {"topics": "logs"}, {"topics": [1]}):
        with pytest.raises(ParamValidationError):
            filled(params, wrong)


def test_backfills_run_when_they_are_asked_for_and_one_at_a_time(bag: Any) -> None:
    dag = bag.dags["task_backfill"]
    assert type(dag.timetable).__name__ == "NullTimetable"
    assert dag.max_active_runs == 1  # each is a Spark application of its own
    (fill,) = dag.tasks
    assert fill._conn_id == "spark_default"
    assert fill.outlets == []  # the nightly batch announces the results of a day


def test_a_rebuild_is_a_spark_job_of_its_own(bag: Any) -> None:
    (count,) = bag.dags["rebuild"].tasks
    assert count._conn_id == "spark_default"
    assert count.outlets == []


def test_retention_runs_every_night_after_the_batch(bag: Any) -> None:
    dag = bag.dags["retention"]
    assert dag.timetable.expression == "0 4 * * *"
    assert dag.max_active_runs == 1
    assert set(dag.task_ids) == {"drop", "archive", "books", "airflow", "files", "hdfs"}
    assert not any(task.upstream_list for task in dag.tasks)  # one that fails holds up no other


def test_compaction_runs_every_night_and_never_twice_at_a_time(bag: Any) -> None:
    dag = bag.dags["compaction"]
    assert dag.timetable.expression == "0 3 * * *"
    assert dag.max_active_runs == 1


def test_collection_is_supervised_whatever_became_of_the_deployment(bag: Any) -> None:
    collection = bag.dags["collection"]
    assert [task.task_id for task in collection.topological_sort()] == ["plan", "deploy", "supervise"]
    assert collection.get_task("supervise").trigger_rule == "all_done"


FAULTY = {
    "broken import": ("import nosuchmodule", "nosuchmodule"),
    "a cycle": (
        "from airflow.sdk import DAG\nfrom airflow.providers.standard.operators.empty import "
        "EmptyOperator as E\n"
        "with DAG('d', schedule=None): a = E(task_id='a'); b = E(task_id='b'); a >> b >> a",
        "ycl",
    ),
}


@pytest.mark.parametrize("fault", FAULTY)
def test_faulty_file_is_reported(load: Callable, tmp_path: Path, fault: str) -> None:
    source, said = FAULTY[fault]
    (tmp_path / "faulty.py").write_text(f"# airflow DAG\n{source}\n")
    errors = load(tmp_path).import_errors
    assert len(errors) == 1
    assert said in next(iter(errors.values()))


def test_careless_dag_has_problems(load: Callable, tmp_path: Path) -> None:
    (tmp_path / "careless.py").write_text(
        "from airflow.sdk import DAG\nfrom airflow.providers.standard.operators.empty import EmptyOperator\n"
        "with DAG('careless', schedule=None, catchup=True): EmptyOperator(task_id='t')\n"
    )
    assert problems(load(tmp_path).dags["careless"]) == [
        "no tag",
        "no documentation",
        "no description",
        "catches up",
        "no start date with a time zone",
        "t: owned by airflow",
        "t: no retries",
    ]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("open('/etc/hostname').read()", "open /etc/hostname"),
        ("import socket; socket.socket().connect_ex(('127.0.0.1', 9))", "socket.connect ('127.0.0.1', 9)"),
        ("import subprocess; subprocess.run(['true'])", "subprocess.Popen true"),
    ],
)
def test_top_level_io_is_seen(tmp_path: Path, statement: str, said: str, watched_io: Callable) -> None:
    (tmp_path / "busy.py").write_text(statement)
    assert said in import_dag_file(tmp_path / "busy.py", watched_io)
