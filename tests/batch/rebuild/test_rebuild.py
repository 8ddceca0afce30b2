"""Rebuilds on the running stack: what HBase lost is counted again, each line once, whatever dies."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

from sluice.batch.rebuild import rebuild
from sluice.quality.reconcile import reconcile, speed_passed
from sluice.results.layers import StoredLayers
from sluice.results.query import Query
from sluice.results.reader import read
from sluice.runtime.days import begin_ms
from sluice.runtime.settings import Settings
from sluice.stack.environment import own_environment
from sluice.state.blocks import period_prefix
from sluice.storage.hbase import STATE
from sluice.storage.tables import alerts, recounts
from sluice.storage.tables.epochs import PeriodKey
from sluice.storage.tables.rebuilds import Rebuilds, RebuildState
from sluice.storage.tables.recounts import Recounts
from tests.batch.backfill.test_backfill import DAY, Layers
from tests.batch.rebuild.paused import rebuilds_paused

pytestmark = pytest.mark.stack

NEXT = DAY + timedelta(days=1)
SECONDS = 240
KILLED = -signal.SIGKILL


class LosingLayers(Layers):
    """Two layers whose HBase loses blocks."""

    def __init__(self, settings: Settings, topic: str, spark: SparkSession) -> None:
        super().__init__(settings, topic, spark)
        self.rebuilds = Rebuilds(self.database)
        self.recounts = Recounts(self.database, topic)

    def lose(self, name: str | None = None) -> list[PeriodKey]:
        """Delete all blocks of the speed layer's state of a task, or of all tasks; returns the periods."""
        wanted = None if name is None else self.tasks.get(f"{self.topic}_{name}").task_id
        gone = []
        for task in self.tasks.active(self.topic):
            if wanted not in (None, task.task_id):
                continue
            keys = [(task.task_id, task.version, start) for start in self._starts(task.task_id)]
            for key in keys:
                rows = self.hbase.scan(STATE, prefix=period_prefix(key))
                self.hbase.delete(STATE, [(row, list(cells)) for row, cells in rows])
            gone += keys
        return gone

    def _starts(self, task_id: int) -> list[int]:
        return sorted({key[2] for key in self.log.changed_since(0).snapshot.periods if key[0] == task_id})

    def due(self) -> int:
        """The topic's rebuild that is under way, or one of what was set aside."""
        for each in self.rebuilds.unfinished(self.topic):
            return each.id
        assert self.recounts.waiting()
        return self.rebuilds.request(self.topic, None, user="test").id

    def carry_out(self, number: int) -> None:
        done = rebuild.run(self.spark, self.settings, number)
        assert (done.state, done.message) == (RebuildState.FINISHED, None)

    def killed_at(self, number: int, point: str) -> None:
        done = subprocess.run(
            [sys.executable, "jobs/rebuild.py", "--id", str(number)],
            cwd=self.settings.root,
            env={**os.environ, **own_environment(self.settings), "SLUICE_FAULT": point},
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        sys.stderr.write(done.stderr[-4000:])  # pytest shows it if the test fails
        assert done.returncode == KILLED

    def shown(self, name: str) -> tuple[int, set[str]]:
        """How many lines a reader sees, and the states of the periods."""
        (answer,) = read(StoredLayers(self.settings), Query(tasks=(f"{self.topic}_{name}",)))
        lines = sum(row["count"] for row in answer.table().to_pylist())
        return lines, set(answer.periods.column("state").to_pylist())


@pytest.fixture(scope="module", autouse=True)
def by_hand(stack: Settings) -> Iterator[None]:
    with rebuilds_paused(stack):
        yield


@pytest.fixture
def layers(stack: Settings, spark: SparkSession) -> Iterator[LosingLayers]:
    made = LosingLayers(stack, f"rebuild_{secrets.token_hex(4)}", spark)
    made.apply(made.task("twin"), made.task("lost"))
    made.both(made.lines(300))
    yield made
    made.hbase.close()
    made.forget()


def test_a_lost_block_stops_no_other_task_and_its_period_is_right_again(layers: LosingLayers) -> None:
    (key,) = layers.lose("lost")
    layers.both(layers.lines(100, start=300))  # the late lines find it
    assert layers.recounts.of([key]) == {key}
    (alert,) = (
        each for each in alerts.open_alerts(layers.database, recounts.ALERTS) if layers.topic in each.name
    )
    assert f"{layers.topic}_lost ({key[0]}v1), the period from" in alert.message
    assert layers.shown("twin") == (400, {"open"})
    assert layers.shown("lost") == (0, {"recounting"})
    assert not speed_passed(layers.settings, layers.topic, DAY, {})

    layers.carry_out(layers.due())
    layers.agree("lost")
    assert layers.shown("lost") == (400, {"open"})
    assert layers.recounts.all() == []
    assert not [e for e in alerts.open_alerts(layers.database, recounts.ALERTS) if layers.topic in e.name]
    layers.restart()  # as the topic does whose batch meets what the rebuild switched
    layers.both(layers.lines(50, start=100))  # the next lines add to both parts
    layers.agree("lost")
    assert layers.shown("lost") == (450, {"open"})

    layers.nightly()
    entry = layers.days.get(DAY)
    assert entry is not None
    outcome = reconcile(layers.settings, layers.topic, DAY, entry.cut)
    assert (outcome.outcome, outcome.differing) == ("agrees", 0), outcome.message


def test_a_reader_that_meets_a_lost_block_says_so_and_starts_its_rebuild(layers: LosingLayers) -> None:
    layers.lose("lost")
    assert layers.shown("lost") == (0, {"recounting"})
    layers.restart()
    layers.carry_out(layers.due())
    assert layers.shown("lost") == (300, {"open"})


@pytest.mark.parametrize("point", ["rebuild_begun", "rebuild_blocks", "rebuild_staged", "rebuild_switched"])
def test_a_rebuild_killed_at_any_step_is_finished_by_the_next(layers: LosingLayers, point: str) -> None:
    second = layers.lines(50, NEXT)
    layers.both(second)
    layers.lose("lost")
    layers.both(layers.lines(20, start=300))
    number = layers.due()
    layers.killed_at(number, point)
    layers.restart()
    layers.both(layers.lines(30, start=320))  # after the cut
    layers.both(second[:10])  # doubles of lines from before it
    assert layers.due() == number
    layers.carry_out(number)
    layers.agree("lost")
    prefix = f"r{layers.tasks.get(f'{layers.topic}_lost').task_id}v1/".encode()
    found = {(row, name) for row, cells in layers.hbase.scan(STATE, prefix=prefix) for name in cells}
    assert found == layers.book.rows_at(prefix.decode())  # the blocks of the killed try are gone


def test_a_table_that_is_lost_whole_is_counted_again_on_request(layers: LosingLayers) -> None:
    wanted = layers.online("twin")
    keys = layers.lose()
    versions = sorted({key[:2] for key in keys})
    asked = layers.rebuilds.request(layers.topic, versions, user="test")
    layers.carry_out(asked.id)
    layers.restart()
    layers.both(layers.lines(50, start=300))
    layers.agree("lost")
    assert layers.shown("twin") == (350, {"open"})
    assert layers.online("twin").keys() == wanted.keys()


def test_a_rebuild_of_what_is_whole_changes_no_result(layers: LosingLayers) -> None:
    before = layers.online("lost")
    version = (layers.tasks.get(f"{layers.topic}_lost").task_id, 1)
    layers.carry_out(layers.rebuilds.request(layers.topic, [version], DAY, DAY, user="test").id)
    assert layers.online("lost") == before
    layers.carry_out(layers.rebuilds.request(layers.topic, [version], user="test").id)  # and once more
    assert layers.online("lost") == before
    assert layers.shown("lost") == (300, {"open"})


def test_what_a_backfill_filled_is_counted_again_too(layers: LosingLayers) -> None:
    layers.apply(layers.task("twin"), layers.task("lost"), layers.task("new"))
    layers.both(layers.lines(100, start=300))
    layers.fill("new")
    layers.agree("new")
    task = layers.tasks.get(f"{layers.topic}_new").task_id
    rows = layers.hbase.scan(STATE, prefix=f"b{task}v1/".encode())
    layers.hbase.delete(STATE, [(row, list(cells)) for row, cells in rows])
    assert layers.shown("new") == (0, {"recounting"})
    layers.restart()
    layers.carry_out(layers.due())
    layers.agree("new")
    layers.fill("new")  # filling it again replaces only what a backfill owns
    layers.agree("new")
    assert layers.shown("new") == (400, {"open"})


def test_hours_are_counted_again_and_those_of_other_days_stay(layers: LosingLayers) -> None:
    layers.apply(layers.task("twin"), layers.task("lost"), layers.task("hours", "1h"))
    layers.both(layers.lines(40))
    layers.both(layers.lines(40, NEXT))
    before = layers.online("hours")
    version = (layers.tasks.get(f"{layers.topic}_hours").task_id, 1)
    number = layers.rebuilds.request(layers.topic, [version], NEXT, NEXT, user="test").id
    layers.carry_out(number)
    done = layers.rebuilds.get(number)
    assert (done.days, done.lines) == ((NEXT,), 40)
    assert layers.online("hours") == before
    starts = {key[2] for key in layers.log.changed_since(0).snapshot.periods if key[:2] == version}
    assert all(start < begin_ms(NEXT) for start in starts)  # the other day's state was left alone
