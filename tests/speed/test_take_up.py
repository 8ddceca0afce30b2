"""A changed task counts from an empty commit on if no line comes to bring the change."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.engine.plan import EnginePlan
from sluice.engine.set_aside import Failures, TasksFailed, Version
from sluice.runtime.settings import Limits, Speed
from sluice.speed.micro_batch import MicroBatch
from sluice.speed.writer import COMMITS_APART, Counted, Writer, nothing
from sluice.storage.commits import Commit
from sluice.tasks.topic import TopicSpec
from tests.engine.samples import active, spec

LONG_AGO = datetime(
    2100, 1, 1, tzinfo=UTC
)  # later than any clock's time; commits must still follow each other


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

    def look(self) -> Any:
        return self.tasks

    active = look

    def format(self) -> TopicSpec:
        return TopicSpec()

    def default_grouping(self) -> None:
        return None

    def set_aside(self, failures: Failures) -> None:
        self.failed |= failures


def batch(lag: int | None = 0, counted: set[Version] | None = None) -> Any:
    """A micro-batch after commit 4, without a query around it."""
    log: Any = Log()
    none: Any = SimpleNamespace()
    made: Any = object.__new__(MicroBatch)
    made.topic, made.failure = "logs", None
    made._gate, made._closed = threading.Lock(), False
    made._tasks = Tasks()
    made._writer = Writer(log, none, none, none, key=b"", tasks=2)
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
    assert commit.counts == {"records": 0, "doubled": 0, "counted": 0, "dead": 0}
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


def test_nothing_is_done_while_a_batch_runs_or_after_the_end() -> None:
    one = batch()
    with one._gate:
        one.take_up()
    one._closed = True
    one.take_up()
    assert one.log.commits == []


def test_a_commit_that_may_or_may_not_be_made_ends_the_writer() -> None:
    """The next batch would have the same number and take that commit for its own."""
    one = batch()
    one.log.away = ConnectionError("in the middle of COMMIT")
    with pytest.raises(ConnectionError):
        one.take_up()
    assert one.failure is one.log.away
    one.log.away = None
    one.take_up()
    assert one.log.commits == []


def test_a_task_that_fails_is_set_aside_before_the_commit_without_it() -> None:
    one = batch()
    one._settings = SimpleNamespace(limits=Limits(), speed=Speed())
    one._routing = SimpleNamespace(routes=lambda *_, **__: None)

    def count(plan: EnginePlan, *_: Any, small: bool) -> Counted:
        assert small
        if plan.tasks:
            raise TasksFailed({(task.task_id, task.version): "boom" for task in plan.tasks})
        return nothing()

    one._writer.count = count
    one.log.away = RuntimeError("killed")  # before the commit; the next start must find the task failed
    with pytest.raises(RuntimeError, match="killed"):
        one._count(None, {"0": 9})
    assert one._tasks.failed == {(1, 1): "boom"}
