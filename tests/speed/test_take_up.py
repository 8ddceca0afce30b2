"""A changed task counts from an empty commit on if no line comes to bring the change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from sluice.engine.plan import EnginePlan
from sluice.engine.set_aside import Failures, TasksFailed, Version
from sluice.runtime.positions import UNREAD
from sluice.runtime.sections import Limits, Speed
from sluice.runtime.settings import Settings
from sluice.spark.on_demand import OnDemand
from sluice.speed import streaming
from sluice.speed.micro_batch import MicroBatch
from sluice.speed.progress import SpeedProgress
from sluice.speed.streaming import TopicStream
from sluice.speed.writer import COMMITS_APART, CountedBatch, Writer, nothing
from sluice.storage.tables.commits import Commit
from sluice.tasks.topic_spec import TopicSpec
from sluice_lab.waiting import until
from tests.engine.samples import active, spec
from tests.identities import KEY

LONG_AGO = datetime(
    2100, 1, 1, tzinfo=UTC
)  # later than any clock's time; commits must still follow each other


#: Nothing listens at this address.
KAFKA = SimpleNamespace(bootstrap="127.0.0.1:1", identity_key=KEY.hex())
SETTINGS = SimpleNamespace(limits=Limits(), speed=Speed(), kafka=KAFKA)


class Log:
    """The commit log in memory; it raises `away`, if set."""

    patience = 0.0

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self.away: Exception | None = None

    def append(self, commit: Commit) -> None:
        if self.away:
            raise self.away
        self.commits.append(commit)


class Tasks:
    """The tasks that are counted on the topic, in memory."""

    def __init__(self) -> None:
        self.tasks = {(task.task_id, task.version): task for task in active(spec())}
        self.failed: dict[Version, str] = {}
        self.away: Exception | None = None

    def look(self) -> Any:
        if self.away:
            raise self.away
        return self.tasks

    active = look

    def format(self) -> TopicSpec:
        return TopicSpec()

    def default_grouping(self) -> None:
        return None

    def set_aside(self, failures: Failures) -> None:
        self.failed |= failures


class NoSpark(OnDemand):
    """Is not started by what has no job for it."""

    def __init__(self) -> None:
        super().__init__(partial(pytest.fail, "Spark was started"))


def batch(lag: int | None = 0, counted: set[Version] | None = None) -> Any:
    """A micro-batch after commit 4, without a query around it."""
    log: Any = Log()
    none: Any = SimpleNamespace()
    offsets: Any = SimpleNamespace(
        check_topic=lambda: None, topic_id="", read_at={}, logs=dict.fromkeys(range(3), UNREAD)
    )
    made: Any = object.__new__(MicroBatch)
    made.topic = "logs"
    made._lines_a_record = 1.0
    made._spark = NoSpark()
    made._tasks = Tasks()
    made._writer = Writer(log, none, none, offsets, tasks=2)
    made._writer.seq, made._writer.committed_at, made._writer.position = 4, LONG_AGO, {"0": 7}
    made._writer.versions, made._writer.show = counted or set(), lambda: lag
    made.projected = []
    made._projecting = SimpleNamespace(committed=lambda: made.projected.append(len(log.commits)))
    made.log = log
    return made


def test_a_new_task_is_valid_from_where_the_topic_rests() -> None:
    one = batch()
    one.take_up()
    (commit,) = one.log.commits
    assert (commit.seq, commit.start, commit.end) == (5, {"0": 7}, {"0": 7})
    assert (commit.opened, commit.closed, commit.tasks) == ([(1, 1)], [], [(1, 1)])
    assert commit.counts == dict.fromkeys(("lines", "bytes", "doubled", "counted", "dead"), 0)
    assert commit.committed_at == LONG_AGO + COMMITS_APART
    assert one.projected == [1]
    one.take_up()
    assert len(one.log.commits) == 1


def test_a_task_that_was_removed_ends_there() -> None:
    one = batch(counted={(1, 1), (2, 1)})
    one.take_up()
    assert one.log.commits[0].closed == [(2, 1)]
    assert one._writer.versions == {(1, 1)}


@pytest.mark.parametrize("lag", [1, None])
def test_no_empty_commit_is_made_while_lines_are_to_come(lag: int | None) -> None:
    one = batch(lag)
    one.take_up()
    assert one.log.commits == []


def test_a_database_that_is_away_only_delays_the_look() -> None:
    one = batch()
    one._tasks.away = OperationalError("SELECT", {}, Exception("away"))
    one.take_up()
    assert one.log.commits == []
    one._tasks.away = None
    one.take_up()
    assert len(one.log.commits) == 1


def test_a_commit_that_may_or_may_not_be_made_ends_the_writer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The next batch would have the same number and take that commit for its own."""
    lives: list[Any] = []

    class Idle(MicroBatch):
        """On an idle topic; the first one's commit fails half-way."""

        def __init__(self, *_: Any) -> None:
            lives.append(self)
            vars(self).update(vars(batch()))
            self.closed = False
            self.log.away = ConnectionError("in the middle of COMMIT") if len(lives) == 1 else None

        def open(self) -> None:
            pass

        def ends(self) -> dict[str, int]:
            return self.position

        def waiting(self, end: Mapping[str, int]) -> dict[str, int]:
            return dict.fromkeys(end, 0)

        def close(self, seconds: float = 0.0) -> None:
            self.closed = True

    monkeypatch.setattr(streaming, "MicroBatch", Idle)
    monkeypatch.setattr(streaming, "FIRST_PAUSE", 0.01)
    progress: Any = SpeedProgress(tmp_path / "progress.json")
    stream = TopicStream(NoSpark(), Settings(home=tmp_path), "logs", progress)
    stream.start()
    until(lambda: len(lives) > 1 and lives[-1].log.commits, poll=0.01)
    stream.ask_to_stop()
    stream.join(5)
    assert [one.closed for one in lives] == [True, True]
    assert [len(one.log.commits) for one in lives] == [0, 1]
    assert "in the middle of COMMIT" in progress.topics["logs"].errors[0].message


def test_a_batch_has_about_as_many_lines_a_record_as_the_one_before() -> None:
    """Routing decides before the pass whether a batch is worth a second stage."""
    one, asked = batch(), list[int]()
    one._settings = SETTINGS
    one._routing = SimpleNamespace(routes=lambda *_, lines, **__: asked.append(lines))
    of_two_records = nothing().found.counts | {"lines": 300}
    one._writer.count = lambda *_, **__: replace(
        nothing(), found=replace(nothing().found, counts=of_two_records)
    )
    one.log.away = RuntimeError("stop here")
    with pytest.raises(RuntimeError, match="stop here"):
        one.count({"0": 9})
    with pytest.raises(RuntimeError, match="stop here"):
        one.count({"0": 11})
    assert asked == [2, 4 * 150]


def test_a_task_that_fails_is_set_aside_before_the_commit_without_it() -> None:
    one = batch()
    one._settings = SETTINGS
    one._routing = SimpleNamespace(routes=lambda *_, **__: None)

    def count(plan: EnginePlan, *_: Any, small: bool) -> CountedBatch:
        assert small
        if plan.tasks:
            raise TasksFailed({(task.task_id, task.version): "boom" for task in plan.tasks})
        return nothing()

    one._writer.count = count
    one.log.away = RuntimeError("killed")  # before the commit; the next start must find the task failed
    with pytest.raises(RuntimeError, match="killed"):
        one.count({"0": 9})
    assert one._tasks.failed == {(1, 1): "boom"}
