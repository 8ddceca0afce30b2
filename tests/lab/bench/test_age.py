"""The bench `age`: its arithmetic, and a small instance that grows old in a PostgreSQL of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from sluice.engine.count import count
from sluice.engine.plan import EnginePlan, Range
from sluice.runtime.sections import Limits
from sluice.storage.postgres import engine
from sluice.storage.tables import schema
from sluice.storage.tables.tallies import COUNTS
from sluice.tasks import ActiveTask, TopicSpec
from sluice_lab.bench import age, workload
from sluice_lab.bench.aged import FIRST, VERSIONS_A_TASK, Age
from sluice_lab.bench.database import server
from sluice_lab.bench.databases import database
from sluice_lab.bench.old_reads import of_day


def test_the_old_instance_is_held_against_the_new_one() -> None:
    laps = {
        "new": [{"commit": 0.010, "active tasks": 0.002}] * 3,
        "old": [{"commit": 0.011, "active tasks": 0.002}] * 3,
    }
    reads = {"new": [{"audit": 1.0}] * 3, "old": [{"audit": 1.4}, {"audit": 1.3}, {"audit": 9.0}]}
    found = age.outcome(laps, {"new": [0.01], "old": [0.02, 0.03, 2.0]}, reads, "", quick=True)
    batch, start, audit = found.bars
    assert (audit.figure, audit.limit, audit.holds) == (pytest.approx(1.3), 1.2, False)
    assert batch.figure == pytest.approx(13 / 12)
    assert (batch.holds, start.figure, start.holds) == (True, 0.03, True)
    rows = {row[0]: row[1:] for row in found.tables[0].rows}
    assert rows["commit"] == pytest.approx([10.0, 11.0, 1.1])


def test_each_round_of_reads_has_a_night_and_it_has_a_bar() -> None:
    read = {name: [{"audit": 1.0}] * 3 for name in ("new", "old")}
    nights = {"new": [{"a night": 2.0}, {"a night": 4.0}], "old": [{"a night": 3.0}, {"a night": 2.2}]}
    found = age.with_nights(read, nights)
    assert [lap["a night"] for lap in found["old"]] == [3.0, 2.2, 3.0]
    laps = {name: [{"commit": 0.01}] for name in ("new", "old")}
    *_, night = age.outcome(laps, {"new": [0.01], "old": [0.02]}, found, "", quick=True).bars
    assert (night.figure, night.limit, night.holds) == (pytest.approx(1.1), 1.2, True)
    assert night.bar == "a night, old instance over new"


def test_the_lines_of_a_night_are_counted_by_versions_that_are_not_over() -> None:
    lines = of_day(200)
    tasks = [ActiveTask(number, 1, each) for number, each in enumerate(workload.tasks(2), 1)]
    ranges = {(1, 1): [Range.of({}, None)], (2, 1): [Range.of({"0": 1}, {"0": 9_000})]}
    found = count(lines, EnginePlan.of(tasks, Limits(), TopicSpec(name="logs"), ranges)).tallies
    rows = found.to_pylist()
    assert sum(row[name] for row in rows if row["task_id"] == 1 for name in COUNTS) == 200
    assert 2 not in {row["task_id"] for row in rows}


def test_the_instances_take_turns_and_the_first_rounds_do_not_count() -> None:
    order: list[str] = []

    def way(name: str) -> dict[str, float]:
        order.append(name)
        return {"at": float(len(order))}

    found = age.alternately({name: (lambda name=name: way(name)) for name in ("new", "old")}, 2)  # type: ignore[misc]
    assert len(order) == 2 * (age.WARM + 2)
    assert order[-4:] in (["new", "old", "old", "new"], ["old", "new", "new", "old"])
    assert all(len(laps) == 2 for laps in found.values())


@pytest.mark.slow
@pytest.mark.long
def test_an_old_instance_has_what_retention_keeps_and_counts_on(tmp_path: Path) -> None:
    how = Age(versions=400, days=20, commits=10, starts=2, periods=32, files=2, dead=3)
    with server("age") as settings, database(settings, "bench_old") as own:
        layer = age.SpeedLayerQueries(own, tmp_path, how)
        assert layer.open() > 0
        layer.batch()
        laps = [layer.batch() for _ in range(3)]
        assert set(laps[0]) >= {"active tasks", "commit", "what is to be projected"}
        tables = schema.metadata.tables
        with engine(own).connect() as connection:
            sizes = {
                name: connection.scalar(sa.select(sa.func.count()).select_from(tables[name]))
                for name in ("tasks", "task_versions", "task_ranges", "commits", "state_periods", "epochs")
            }
            over = sa.select(sa.func.count()).where(schema.tasks.c.id > FIRST)
            assert connection.scalar(over) == 400 // VERSIONS_A_TASK
    assert sizes == {
        "tasks": 100 + age.TASKS,
        "task_versions": 400 + age.TASKS,
        "task_ranges": 400 + age.TASKS,
        "commits": 200 + 4,
        "state_periods": 20 * 32 + age.TASKS,
        "epochs": 41 + 1,
    }
