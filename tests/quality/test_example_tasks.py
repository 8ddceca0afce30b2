"""The demo's tasks over made-up lines: both layers' results compared like a reconciliation."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sluice.batch.day_results import to_partials, to_results
from sluice.cli.demo.task_report import task_report
from sluice.engine.count import count
from sluice.engine.merge import merge
from sluice.engine.plan import EnginePlan, Range
from sluice.engine.results import results
from sluice.engine.schema import partials_schema
from sluice.quality import day_comparison
from sluice.quality.two_sides import two_sides
from sluice.results.compare import Comparison
from sluice.results.offline_results import DayResults, of_task
from sluice.results.online_results import online_results
from sluice.results.periods import ALWAYS, Periods
from sluice.runtime.sections import Limits
from sluice.runtime.settings import ROOT
from sluice.storage.hbase import Cells
from sluice.tasks import ActiveTask, parse_tasks
from sluice.tasks.lists import parse_lists
from sluice.traffic import generate
from tests.engine.samples import records, stored
from tests.quality.stores import StoredHBase, StoredHive
from tests.quality.test_two_sides import holds

pytestmark = pytest.mark.slow

EXAMPLES = ROOT / "include" / "examples"
FIRST, DAYS, LINES = date(2026, 3, 28), 3, 3_000  # Berlin changes its clocks on the second day
BEGIN = int(datetime(2026, 3, 28, tzinfo=UTC).timestamp()) * 1000
DAY_MS = 86_400_000


def tasks() -> list[ActiveTask]:
    lists = parse_lists((EXAMPLES / "lists.yaml").read_text())
    specs = parse_tasks((EXAMPLES / "tasks.yaml").read_text())
    return [ActiveTask(n, 1, spec.with_sets(lists)) for n, spec in enumerate(specs, 1)]


TASKS = tasks()


@pytest.fixture(scope="module")
def lines() -> pa.RecordBatch:
    blocks = generate.batches(LINES, seed=4, days=DAYS, start=FIRST)
    return records(b"".join(map(bytes, blocks)).splitlines())


@pytest.fixture(scope="module")
def online(lines: pa.RecordBatch) -> dict[bytes, Cells]:
    """Results of batches of all sizes, out of order, each merged into the state before it."""
    chance = np.random.default_rng(1)
    plan = EnginePlan.of(TASKS, Limits())
    edges = [0, *sorted(chance.choice(LINES, 12, replace=False).tolist()), LINES]
    parts = [lines.slice(a, b - a) for a, b in itertools.pairwise(edges)]
    state = partials_schema().empty_table()
    for at in chance.permutation(len(parts)).tolist():
        counted = count(parts[at], plan)
        assert not counted.failed
        state = merge(pa.concat_tables([state, counted.partials]))
    return stored(results(state, {(task.task_id, 1): task for task in TASKS}))


@pytest.fixture(scope="module")
def offline(lines: pa.RecordBatch) -> StoredHive:
    """Results day by day; each day's two partitions have their partial aggregates merged."""
    plan = EnginePlan.of(TASKS, Limits(), ranges={(task.task_id, 1): [Range.of({})] for task in TASKS})
    ms = count(lines, plan).event_ms
    days: dict[str, list[dict[str, Any]]] = {}
    for number in range(DAYS):
        own = lines.filter(pa.array((ms - BEGIN) // DAY_MS == number))
        halves = [own.filter(pa.array(np.arange(len(own)) % 2 == half)) for half in (0, 1)]
        partials: Iterator[pa.RecordBatch] = (
            batch for half in halves for batch in to_partials(iter([half]), plan)
        )
        found = pa.Table.from_batches(to_results(partials, TASKS))
        days[f"2026-03-{28 + number}"] = found.to_pylist()
    return StoredHive(days)


def compared(task: ActiveTask, online: dict[bytes, Cells], offline: StoredHive) -> list[Comparison]:
    """The comparisons of all days, each with all the periods that touch it."""
    return [
        day_comparison._compare(
            offline,
            StoredHBase(online),
            DayResults(offline, "logs", day),
            task,
            Periods.of(day, task.spec.span),
        )
        for day in (date.fromisoformat(text) for text in offline.days)
    ]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.spec.name)
def test_both_layers_agree(task: ActiveTask, online: dict[bytes, Cells], offline: StoredHive) -> None:
    found = compared(task, online, offline)
    assert [str(d) for each in found for d in each.differences] == []
    assert all(holds(two_sides(each.frame)) for each in found)
    rows = {row for each in found for row in each.frame["row"]}
    assert rows == {row for row in online if row.startswith(f"{task.label}_".encode())}
    assert {name for each in found for name in each.frame["metric"]} == set(task.spec.metrics)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.spec.name)
def test_the_report_agrees_too(task: ActiveTask, online: dict[bytes, Cells], offline: StoredHive) -> None:
    """The report reads whole tasks, not days."""
    found = task_report(task, online_results(StoredHBase(online), task, ALWAYS), of_task(offline, task))
    assert found.examples == []
    assert found.agrees
    assert found.results == sum(row.startswith(f"{task.label}_".encode()) for row in online) > 0


def test_a_line_counted_twice_is_found_in_every_task(
    lines: pa.RecordBatch, online: dict[bytes, Cells], offline: StoredHive
) -> None:
    """Not every metric finds it: a double changes no set, and no quantile beyond its error."""
    doubled = count(pa.concat_batches([lines, lines]), EnginePlan.of(TASKS, Limits()))
    cells = stored(results(merge(doubled.partials), {(t.task_id, 1): t for t in TASKS}))
    for task in TASKS:
        found = compared(task, cells, offline)
        differing = {name for each in found for name in each.frame[each.frame["differs"]]["metric"]}
        assert differing >= {"count", "sum"} & set(task.spec.metrics), task.spec.name
        assert not differing & {"unique", "avg", "min", "max", "stddev"}
        assert [holds(two_sides(each.frame)) for each in found] == [not each.differing for each in found]
