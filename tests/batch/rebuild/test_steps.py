"""The steps of `batch.rebuild.rebuild`: killed after any of them, the next run finishes it; on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import sqlalchemy as sa

from sluice.batch.backfill.day_count import point
from sluice.batch.rebuild import rebuild as module
from sluice.engine.set_aside import TasksFailed
from sluice.runtime.days import begin_ms
from sluice.state.blocks import BlockId
from sluice.storage.tables import alerts, recounts, schema
from sluice.storage.tables.backfills import FILLED, REBUILT, Backfills
from sluice.storage.tables.epochs import PeriodKey, StatePeriod, column
from sluice.storage.tables.open_losses import open_losses, settle
from sluice.storage.tables.rebuilds import Rebuilds, RebuildState
from sluice.storage.tables.recounts import BlockDamage, Recounts
from sluice.tasks.store import TaskStore
from tests.engine.samples import spec
from tests.state.test_backfilled import Cells
from tests.storage.booked import DAY, NEXT, ask, commit, database, expire, lose, open_range

__all__ = ["database"]  # a fixture

PERIODS = [StatePeriod(1, 1, begin_ms(day), 1, 1, 2, 100) for day in (DAY, NEXT)]
POINTS = ["rebuild_begun", "rebuild_blocks", "rebuild_staged", "rebuild_switched"]


class Killed(BaseException):
    """The process died at a crash point."""


class Table(Cells):
    """HBase's `state`, in memory."""

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *_: object) -> None: ...


class OnePass:
    """In the place of Spark: each wanted period of the day has one block."""

    counted: ClassVar[list[tuple[date, str]]] = []
    fails_on: ClassVar[dict[date, PeriodKey]] = {}  # the version of this period raises on lines of the day
    number = 0

    def __init__(self, spark: Any, settings: Any, hbase: Table, topic: str, cut: dict[int, int]) -> None:
        assert cut == {0: 250}
        self.hbase = hbase

    def write(
        self, day: date, plan: Any, number: int, told: Any, *, owner: str, only: set[PeriodKey], failures: Any
    ) -> tuple[list[Any], int]:
        OnePass.number += 1
        failures.value |= {self.fails_on[day][:2]: "it raised"} if day in self.fails_on else {}
        self.counted.append((day, owner))
        name = column(number, f"try{OnePass.number}")
        own = [key for key in sorted(only) if key[2] == begin_ms(day)]
        found = [point(BlockId.of(key, 1, 0), day, name, 1, owner) for key in own]
        self.hbase.put("state", [(each.row.encode(), {name: b"x"}) for each in found])
        kept = [each for each in found if each.period[:2] not in failures.value]
        return kept, len(kept)


class Written:
    """In the place of the projection: which periods' results were written."""

    starts: ClassVar[list[int]] = []

    def __init__(self, *_: Any) -> None: ...

    def project_periods(self, starts: Sequence[int]) -> int:
        self.starts.extend(starts)
        return len(starts)


class Steps:
    """A rebuild whose stores are in memory, and which dies where it is told to."""

    def __init__(self, database: sa.Engine) -> None:
        self.database, self.table = database, Table()
        self.book = Rebuilds(database, patience=0)
        self.dies_at: str | None = None
        with database.begin() as connection:
            for period in PERIODS:
                row = {"topic": "logs", **vars(period)}
                connection.execute(sa.insert(schema.state_periods).values(**row))
                state = BlockId.of(period.key, 1, 0).row.encode()
                self.table.put("state", [(state, {column(2, "t"): b"old", column(3, "t"): b"new"})])

    def reached(self, at: str) -> None:
        if at == self.dies_at:
            self.dies_at = None
            raise Killed

    def run(self, number: int) -> None:
        spark: Any = SimpleNamespace(
            sparkContext=SimpleNamespace(accumulator=lambda *_: SimpleNamespace(add=None, value={}))
        )
        settings: Any = SimpleNamespace(limits=None)
        module.run(spark, settings, number)


@pytest.fixture
def steps(database: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> Steps:
    commit(database, 1, 0, 100)
    commit(database, 2, 100, 250)
    open_range(database, 1, 40)
    made = Steps(database)
    OnePass.counted, OnePass.fails_on, Written.starts = [], {}, []
    monkeypatch.setattr(module, "engine", lambda settings: database)
    monkeypatch.setattr(module, "HBase", SimpleNamespace(of=lambda settings: made.table))
    monkeypatch.setattr(module, "DayCount", OnePass)
    monkeypatch.setattr(module, "Projection", Written)
    monkeypatch.setattr(module, "crash_point", made.reached)
    monkeypatch.setattr(module, "CommitLog", lambda *_: SimpleNamespace(periods=lambda keys: {}))
    monkeypatch.setattr(module.index, "positions_of", lambda settings, topic, cut: {0: 250})
    monkeypatch.setattr(module.EnginePlan, "of", lambda *_: None)
    return made


def rows(steps: Steps) -> set[tuple[bytes, bytes]]:
    return {(row, name) for row, cells in steps.table.rows.items() for name in cells}


@pytest.mark.parametrize("point", [None, *POINTS])
def test_a_rebuild_that_died_is_finished_by_the_next_run(steps: Steps, point: str | None) -> None:
    number = steps.book.request("logs", [(1, 1)], user="ann").id
    steps.dies_at = point
    if point is not None:
        with pytest.raises(Killed):
            steps.run(number)
        assert steps.book.get(number).state != RebuildState.FINISHED
    steps.run(number)
    done = steps.book.get(number)
    assert (done.state, done.done_days, done.message) == (RebuildState.FINISHED, (DAY, NEXT), None)
    keys = [each.key for each in PERIODS]
    pointers = Backfills(steps.database).pointers(keys)
    assert [each.row[0] for each in pointers] == [REBUILT, REBUILT]
    live = {(each.row.encode(), each.column.encode()) for each in pointers}
    later = {(BlockId.of(key, 1, 0).row.encode(), column(3, "t")) for key in keys}
    assert rows(steps) == live | later  # what was replaced, and what the dead try left, is deleted
    assert Recounts(steps.database, "logs").all() == []
    assert sorted(set(Written.starts)) == sorted(each.period_start for each in PERIODS)
    days = [day for day, _ in OnePass.counted]
    assert days.count(NEXT) == 1
    assert days.count(DAY) == (2 if point == "rebuild_blocks" else 1)  # a staged day is not counted again
    steps.run(number)  # a finished one is left alone
    assert len(OnePass.counted) == len(days)


def test_what_was_filled_is_counted_again_apart(steps: Steps) -> None:
    backfills = Backfills(steps.database, patience=0)
    with backfills.filling(ask(backfills, DAY, DAY)) as filling:
        filling.replace(DAY, [point(BlockId.of(PERIODS[0].key, 1, 0), DAY, b"s:9", 1)], 1)
    steps.run(steps.book.request("logs", [(1, 1)], DAY, DAY, user="ann").id)
    assert OnePass.counted == [(DAY, REBUILT), (DAY, FILLED)]
    found = backfills.pointers([PERIODS[0].key])
    assert sorted(each.row[0] for each in found) == [FILLED, REBUILT]
    assert "s:9" not in {each.column for each in found}
    with steps.database.connect() as connection:  # the other day was not asked for
        assert connection.scalars(sa.select(schema.state_periods.c.period_start)).all() == [begin_ms(NEXT)]


def test_a_try_that_failed_says_why(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise ConnectionError("HDFS is away")

    monkeypatch.setattr(OnePass, "write", away)
    monkeypatch.setattr(module, "damaged_file", lambda *_: None)
    number = steps.book.request("logs", [(1, 1)], user="ann").id
    with pytest.raises(ConnectionError):
        steps.run(number)
    failed = steps.book.get(number)
    assert (failed.state, failed.message) == (RebuildState.COUNTING, "ConnectionError: HDFS is away")
    assert failed.tried_at is not None


def test_what_kafka_lost_is_waited_for_and_the_rebuild_begins_anew(
    steps: Steps,
) -> None:
    number = steps.book.request("logs", [(1, 1)], user="ann").id
    steps.dies_at = "rebuild_staged"
    with pytest.raises(Killed):
        steps.run(number)
    lose(steps.database, 1)
    steps.run(number)
    waits = steps.book.get(number)
    assert (waits.state, waits.waits) == (RebuildState.COUNTING, True)
    assert [day for day, _ in OnePass.counted] == [DAY]
    settle(steps.database, open_losses(steps.database))
    steps.run(number)
    assert [day for day, _ in OnePass.counted] == [DAY, DAY, NEXT]  # what was staged does not count
    done = steps.book.get(number)
    assert (done.state, done.message, done.lines) == (RebuildState.FINISHED, None, 2)
    live = [each for each in rows(steps) if each[0].startswith(REBUILT.encode())]
    assert len(live) == 2


def test_what_the_archive_lacks_stays_set_aside_and_the_rest_is_counted(steps: Steps) -> None:
    listed = Recounts(steps.database, "logs", patience=0)
    listed.set_aside([BlockDamage(each.key, "lost", each) for each in PERIODS])
    expire(steps.database, DAY)
    number = steps.book.next(datetime.now(UTC))
    assert number is not None
    steps.run(number)
    assert OnePass.counted == [(NEXT, REBUILT)]
    assert listed.expired() == {PERIODS[0].key}
    assert listed.of([each.key for each in PERIODS]) == {PERIODS[0].key}
    assert steps.book.next(datetime.now(UTC)) is None  # it is not tried for ever


def test_a_day_that_expires_while_it_is_counted_is_left_out(steps: Steps) -> None:
    number = steps.book.request("logs", [(1, 1)], user="ann").id
    steps.dies_at = "rebuild_staged"
    with pytest.raises(Killed):
        steps.run(number)
    expire(steps.database, DAY)
    steps.run(number)
    assert steps.book.get(number).state == RebuildState.FINISHED
    assert Recounts(steps.database, "logs").expired() == {PERIODS[0].key}
    assert [each.period_start for each in Backfills(steps.database).pointers([e.key for e in PERIODS])] == [
        begin_ms(NEXT)
    ]


def other(steps: Steps) -> list[StatePeriod]:
    """The periods of a second task, which has state on both days, too."""
    found = [StatePeriod(2, 1, begin_ms(day), 1, 1, 2, 100) for day in (DAY, NEXT)]
    TaskStore(steps.database).apply([spec(name="other")], "test")
    open_range(steps.database, 1, 40, task_id=2)
    with steps.database.begin() as connection:
        for period in found:
            connection.execute(sa.insert(schema.state_periods).values(topic="logs", **vars(period)))
    return found


@pytest.mark.parametrize("point", [None, *POINTS])
@pytest.mark.parametrize("on", [DAY, NEXT])
def test_a_version_that_raises_stays_set_aside_and_the_others_are_switched(
    steps: Steps, on: date, point: str | None
) -> None:
    """On the first day or after one of its days is staged, and killed at any step."""
    sound = other(steps)
    OnePass.fails_on = {on: (1, 1, 0)}
    number = steps.book.request("logs", [(1, 1), (2, 1)], user="ann").id
    if point is not None:
        steps.dies_at = point
        with pytest.raises(Killed):
            steps.run(number)
    steps.run(number)
    done = steps.book.get(number)
    assert (done.state, done.done_days, done.message) == (RebuildState.FINISHED, (DAY, NEXT), None)
    keys = [each.key for each in PERIODS]
    listed = Recounts(steps.database, "logs", patience=0)
    assert listed.failed() == listed.of([*keys, *(each.key for each in sound)]) == set(keys)
    assert {each.failed for each in listed.all()} == {"it raised"}
    pointers = Backfills(steps.database).pointers([*keys, *(each.key for each in sound)])
    assert [each.period for each in pointers] == [each.key for each in sound]
    assert {row for row, _ in rows(steps) if row[:1] == b"r"} == {each.row.encode() for each in pointers}
    assert sorted(set(Written.starts)) == [each.period_start for each in sound]
    (told,) = alerts.open_alerts(steps.database, recounts.ALERTS)
    assert "could not be counted again: it raised. Once that is mended, `sluice rebuild logs" in told.message
    assert steps.book.next(datetime.now(UTC)) is None  # it is not tried for ever
    assert not listed.touch(begin_ms(DAY), begin_ms(NEXT), 0)  # the others are compared and published

    OnePass.fails_on = {}
    steps.run(steps.book.request("logs", [(1, 1)], user="ann").id)
    assert (listed.all(), alerts.open_alerts(steps.database, recounts.ALERTS)) == ([], [])
    assert {each.period for each in Backfills(steps.database).pointers(keys)} == set(keys)


def test_a_rebuild_of_nothing_but_what_raises_ends(steps: Steps) -> None:
    OnePass.fails_on = {DAY: (1, 1, 0)}
    number = steps.book.request("logs", [(1, 1)], user="ann").id
    steps.run(number)
    done = steps.book.get(number)
    assert (done.state, done.days, done.lines) == (RebuildState.FINISHED, (), 0)
    assert [day for day, _ in OnePass.counted] == [DAY]


def test_a_task_whose_results_cannot_be_made_is_set_aside_and_the_others_have_theirs(
    steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound, aside = other(steps), list[tuple[Any, ...]]()

    def project(self: Written, starts: Sequence[int]) -> int:
        if not Written.starts and not aside:
            raise TasksFailed({(1, 1): "no result"})
        Written.starts.extend(starts)
        return len(starts)

    monkeypatch.setattr(Written, "project_periods", project)
    store = SimpleNamespace(
        version=module.TaskStore(steps.database).version, set_aside=lambda *w: aside.append(w)
    )
    monkeypatch.setattr(module, "TaskStore", lambda _: store)
    number = steps.book.request("logs", [(1, 1), (2, 1)], user="ann").id
    steps.run(number)
    assert steps.book.get(number).state == RebuildState.FINISHED
    assert aside == [(1, 1, "no result")]
    assert sorted(set(Written.starts)) == [each.period_start for each in sound]
