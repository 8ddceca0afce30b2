"""The tasks that the demo counts use everything that a task can say."""

from __future__ import annotations

import itertools

import pytest
import yaml

from sluice.engine.count import count
from sluice.engine.merge import merge
from sluice.engine.results import results
from sluice.metrics import METRICS
from sluice.runtime.settings import ROOT
from sluice.tasks import TopicSpec, check_task, parse_documents, parse_tasks
from sluice.tasks.lists import parse_lists
from sluice.traffic.generate import batches
from tests.engine.samples import active, plan, records

FOLDER = ROOT / "include" / "examples"
TASKS = parse_tasks((FOLDER / "tasks.yaml").read_text())
LISTS = parse_lists((FOLDER / "lists.yaml").read_text())
CONDITIONS = [(c.extract, c.filter) for t in TASKS for c in t.where]
DIMENSIONS = [(d.extract, d.filter) for t in TASKS for d in t.dimensions]


def test_each_fits_its_topic() -> None:
    assert [check_task(task, TopicSpec(name=task.topic)) for task in TASKS] == [[]] * len(TASKS)


def test_each_counts_something_that_no_other_does() -> None:
    """Nor does a task that every new platform has."""
    tasks = [*TASKS, *parse_tasks((ROOT / "include" / "tasks.yaml").read_text())]
    counted = [task.model_dump_json(exclude={"name", "description"}) for task in tasks]
    assert len(set(counted)) == len(tasks)


def test_they_use_every_metric() -> None:
    used = {name for task in TASKS for name in task.metrics}
    assert used >= {"count", "sum", "avg", "min", "max", "missing", "stddev", "unique", "geometric_mean"}
    assert used >= METRICS.keys()  # also those that are added to the registry later
    assert used >= {"p50", "p95", "p99", "p99.9", "top5", "top10"}


def test_they_take_named_fields_whole_and_in_part() -> None:
    measures = [task.measure.extract for task in TASKS if task.measure]
    extracts = [*(e for e, _ in [*CONDITIONS, *DIMENSIONS]), *measures]
    assert {(e.field is not None, e.regex is not None) for e in extracts} == {(True, False), (True, True)}
    assert {task.measure.type for task in TASKS if task.measure} == {"number", "text"}


def test_they_use_every_filter() -> None:
    used = {
        (f.mode, kind)
        for _, f in [*CONDITIONS, *DIMENSIONS]
        if f is not None
        for kind in ("values", "regex", "set")
        if getattr(f, kind) is not None
    }
    assert used == set(itertools.product(("white", "black"), ("values", "regex", "set")))
    assert {name for task in TASKS for name in task.sets} == LISTS.keys()
    assert all(not task.with_sets(LISTS).sets for task in TASKS)


def test_they_use_sql_and_time_zones() -> None:
    assert sum(task.sql is not None for task in TASKS) >= 3
    assert {task.timezone for task in TASKS} >= {"UTC", "Europe/Berlin", "Asia/Kathmandu"}
    assert {task.period for task in TASKS} >= {"5m", "1d", "7d"}


def test_each_is_its_own_document() -> None:
    assert parse_documents([task.document() for task in TASKS]) == TASKS
    text = yaml.safe_dump([task.document() for task in TASKS], sort_keys=False)
    assert parse_tasks(text) == TASKS


@pytest.mark.slow
def test_each_counts_something_of_a_log() -> None:
    lines = b"".join(batches(3000)).split(b"\n")[:-1]
    specs = [task.with_sets(LISTS) for task in TASKS]
    tasks = {(task.task_id, task.version): task for task in active(*specs)}
    found = results(merge(count(records(lines), plan(*specs)).partials), tasks)
    seen = set(zip(found["task_id"].to_pylist(), found["metric"].to_pylist(), strict=True))
    assert seen == {(number, name) for number, task in enumerate(TASKS, 1) for name in task.metrics}
    whole = dict.fromkeys((7, 8), 0.0)  # tasks without filters
    for row in found.to_pylist():
        if row["metric"] == "count" and row["task_id"] in whole:
            whole[row["task_id"]] += row["value"]
    assert set(whole.values()) == {3000}
