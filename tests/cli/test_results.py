"""`sluice results`, `sql` and `audit` against the running stack."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator

import pytest

from sluice.engine.rowkey import RowKey
from sluice.quality.audit import audit
from sluice.results.layers import UnknownVersion, find
from sluice.results.written_query import BadMoment, moment
from sluice.runtime.settings import Settings
from sluice.storage.hbase import FINAL, FINAL_ERROR, ONLINE, ONLINE_ERROR, RESULTS, HBase
from sluice.storage.postgres import engine
from sluice.tasks import TaskSpec
from sluice.tasks.store import Task, TaskStore, UnknownTask
from sluice_lab.ports import free_ports
from tests.results.by_series import stored_results

MINUTE = 60_000
DAY = 1_431_820_800_000  # 2015-05-17


def test_times_are_utc_unless_they_say_otherwise() -> None:
    assert moment(None) is None
    assert moment("2015-05-17") == DAY
    assert moment("2015-05-17T00:01") == DAY + MINUTE
    assert moment("2015-05-17T02:00:00+02:00") == DAY
    with pytest.raises(BadMoment, match="'noon' is no time"):
        moment("noon")


@pytest.fixture(scope="module")
def task(stack: Settings) -> Iterator[Task]:
    """A task on a topic without lines, with three results written as the layers write them."""
    name = f"cli-{uuid.uuid4().hex[:8]}"
    spec = TaskSpec.model_validate(
        {
            "name": name,
            "topic": name,
            "period": "1m",
            "dimensions": [{"name": "status", "extract": {"delimiter": " ", "index": 8}}],
            "metrics": ["count"],
        }
    )
    store = TaskStore(engine(stack))
    store.apply([spec], "test")
    found = store.get(name)

    def row(value: str, minute: int, **cells: bytes) -> tuple[bytes, dict[bytes, bytes]]:
        key = RowKey(found.task_id, 1, (("status", value),), "count", DAY + minute * MINUTE)
        return key.encode(), {{"online": ONLINE, "final": FINAL}[k]: v for k, v in cells.items()}

    rows = [row("200", 0, online=b"7", final=b"8"), row("a_b", 0, online=b"1"), row("200", 1, online=b"3")]
    HBase.of(stack).put(RESULTS, rows)
    yield found
    HBase.of(stack).delete(RESULTS, [(key, ["r"]) for key, _ in rows])
    store.delete(name, "test")


def sluice(stack: Settings, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sluice.cli.main", "--instance", stack.instance, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.stack
def test_results_come_from_the_layer_asked_for(stack: Settings, task: Task) -> None:
    online = stored_results(stack, task.name, "online").values
    published = stored_results(stack, task.name, "published").values
    assert online == {
        (DAY, ("200",)): {"count": 7},
        (DAY, ("a_b",)): {"count": 1},
        (DAY + MINUTE, ("200",)): {"count": 3},
    }
    assert published == {**online, (DAY, ("200",)): {"count": 8}}
    assert stored_results(stack, task.name, "offline").values == {}
    assert stored_results(stack, task.name, "online", since=DAY, until=DAY + MINUTE).values.keys() == {
        (DAY, ("200",)),
        (DAY, ("a_b",)),
    }


@pytest.mark.stack
def test_results_print_as_csv_that_awk_can_add_up(stack: Settings, task: Task) -> None:
    shown = sluice(stack, "results", task.name, "--layer", "online", "--format", "csv")
    assert shown.returncode == 0, shown.stderr
    assert list(csv.reader(io.StringIO(shown.stdout))) == [
        ["period", "status", "count"],
        ["2015-05-17T00:00:00Z", "200", "7"],
        ["2015-05-17T00:00:00Z", "a_b", "1"],
        ["2015-05-17T00:01:00Z", "200", "3"],
    ]


@pytest.fixture
def sketched(stack: Settings) -> Iterator[Task]:
    """A task of days in Berlin, with a list and a quantile as both layers have written them."""
    name = f"cli-{uuid.uuid4().hex[:8]}"
    spec = TaskSpec.model_validate(
        {
            "name": name,
            "topic": name,
            "period": "1d",
            "timezone": "Europe/Berlin",
            "measure": {"delimiter": " ", "index": 9},
            "metrics": ["p95", "top2"],
        }
    )
    store = TaskStore(engine(stack))
    store.apply([spec], "test")
    found = store.get(name)
    rows = {
        "p95": {ONLINE: b"10.5", ONLINE_ERROR: b"0.25", FINAL: b"10.0", FINAL_ERROR: b"0.5"},
        "top2": {ONLINE: b'[["512", 9]]', ONLINE_ERROR: b"0.0"},
    }
    keys = {m: RowKey(found.task_id, 1, (), m, DAY - 2 * 60 * MINUTE).encode() for m in rows}
    HBase.of(stack).put(RESULTS, [(keys[m], cells) for m, cells in rows.items()])
    yield found
    HBase.of(stack).delete(RESULTS, [(key, ["r"]) for key in keys.values()])
    store.delete(name, "test")


@pytest.mark.stack
def test_stated_errors_come_with_the_value_that_they_belong_to(stack: Settings, sketched: Task) -> None:
    series = (DAY - 2 * 60 * MINUTE, ())
    online = stored_results(stack, sketched.name, "online")
    published = stored_results(stack, sketched.name, "published")
    assert (online.values, online.errors) == (
        {series: {"p95": 10.5, "top2": [["512", 9]]}},
        {series: {"p95": 0.25}},
    )
    assert (published.values[series]["p95"], published.errors) == (10.0, {series: {"p95": 0.5}})
    online_only = ("results", sketched.name, "--layer", "online")
    shown = sluice(stack, *online_only)
    assert "2015-05-17T00:00:00+02:00" in shown.stdout
    assert "10.5 ± 0.25" in shown.stdout
    (row,) = json.loads(sluice(stack, *online_only, "--format", "json").stdout)
    assert (row["p95_error"], row["top2"], row["top2_error"]) == (0.25, [["512", 9]], 0)


@pytest.mark.stack
def test_an_unknown_task_or_version_is_usage(stack: Settings, task: Task) -> None:
    with pytest.raises(UnknownTask):
        find(stack, "no-such-task")
    with pytest.raises(UnknownVersion, match="its versions are 1 to 1"):
        find(stack, task.name, 2)
    shown = sluice(stack, "results", "no-such-task")
    assert shown.returncode == 2
    assert "no-such-task" in shown.stderr
    assert task.name in shown.stderr


@pytest.mark.stack
def test_sql_prints_whole_doubles_as_integers_and_fails_in_one_line(stack: Settings) -> None:
    shown = sluice(
        stack, "sql", "SELECT 3.0D AS whole, 0.5D AS half, CAST(NULL AS INT) AS none", "--format", "json"
    )
    assert json.loads(shown.stdout) == [{"whole": 3, "half": 0.5, "none": None}]
    shown = sluice(stack, "sql", "SELECT nonsense FROM nowhere")
    assert shown.returncode == 1
    assert shown.stderr.startswith("sluice: ")
    assert "Traceback" not in shown.stderr


@pytest.mark.stack
def test_the_audit_of_a_topic_without_lines_is_all_zero(stack: Settings, task: Task) -> None:
    shown = sluice(stack, "audit", "--topic", task.topic, "--format", "json")
    assert set(json.loads(shown.stdout)["counts"].values()) == {0}


@pytest.mark.stack
def test_the_audit_shows_all_other_hops_while_the_endpoint_is_away(stack: Settings, task: Task) -> None:
    (closed,) = free_ports(1)
    away = stack.model_copy(update={"hive": stack.hive.model_copy(update={"port": closed})})
    found = audit(away, task.topic)
    assert f":{closed} does not answer" in found.unseen
    assert (found.ok, found.disagreements, set(found.counts().values())) == (False, (), {0})


@pytest.mark.stack
def test_the_audit_of_a_topic_that_does_not_exist_names_the_topics(stack: Settings) -> None:
    shown = sluice(stack, "audit", "--topic", "lgos")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "there is no topic 'lgos'" in shown.stderr
    assert "did you mean logs" in shown.stderr
