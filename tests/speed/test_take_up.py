"""A changed task counts from an empty commit on, where no line comes to bring the change."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.engine.schema import PARTIALS
from sluice.engine.set_aside import TasksFailed, Version
from sluice.engine.wire import FOUND_ARROW
from sluice.speed.ledger import ByteLedger
from sluice.speed.online import COMMITS_APART, MicroBatch
from sluice.speed.partition_pass import Gathered
from sluice.state.blocks import Changes
from sluice.storage.commits import Commit, Pointer
from sluice.tasks.topic import TopicSpec
from tests.engine.samples import active, spec

LONG_AGO = datetime(
    2100, 1, 1, tzinfo=UTC
)  # later than any clock says: commits follow each other all the same


class Log:
    """The commit book, in memory; `away` is what it raises."""

    patience = 0.0

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self.projected = 0
        self.away: Exception | None = None

    def append(self, commit: Commit) -> None:
        if self.away:
            raise self.away
        self.commits.append(commit)

    def rows_reopened(self, seq: int) -> list[str]:
        return []

    def pointers_at(self, rows: list[str]) -> list[Pointer]:
        return []

    def set_projected(self, seq: int) -> None:
        self.projected = seq


class Tasks:
    def __init__(self) -> None:
        self.tasks = active(spec())
        self.failed: list[tuple[int, int, str]] = []

    def active(self, topic: str) -> Any:
        return self.tasks

    def set_aside(self, task_id: int, version: int, message: str) -> bool:
        self.failed.append((task_id, version, message))
        return True


def batch(lag: int | None = 0, counted: set[Version] | None = None) -> Any:
    """A writer after commit 4, with no query around it."""
    made: Any = object.__new__(MicroBatch)
    made.topic, made.token, made.failure = "logs", "token", None
    made._gate, made._closed = threading.Lock(), False
    made._log, made._tasks = Log(), Tasks()
    made._open, made._known = counted or set(), {}
    made._seq, made._committed_at, made._topic_id = 4, LONG_AGO, "id"
    made._position = {"0": 7}
    made._show = lambda: lag
    return made


def test_a_new_task_is_valid_from_where_the_topic_rests() -> None:
    one = batch()
    one.take_up()
    (commit,) = one._log.commits
    assert (commit.seq, commit.start, commit.end) == (5, {"0": 7}, {"0": 7})
    assert (commit.opened, commit.closed, commit.tasks) == ([(1, 1)], [], [(1, 1)])
    assert commit.counts == {"records": 0, "doubled": 0, "counted": 0, "dead": 0}
    assert commit.committed_at == LONG_AGO + COMMITS_APART
    assert one._log.projected == 5
    one.take_up()
    assert len(one._log.commits) == 1


def test_a_task_that_is_gone_ends_there() -> None:
    one = batch(counted={(1, 1), (2, 1)})
    one.take_up()
    assert one._log.commits[0].closed == [(2, 1)]
    assert one._open == {(1, 1)}


@pytest.mark.parametrize("lag", [1, None])
def test_lines_to_come_bring_the_change_themselves(lag: int | None) -> None:
    one = batch(lag)
    one.take_up()
    assert one._log.commits == []


def test_nothing_is_done_while_a_batch_runs_or_after_the_end() -> None:
    one = batch()
    with one._gate:
        one.take_up()
    one._closed = True
    one.take_up()
    assert one._log.commits == []


def test_a_commit_that_may_or_may_not_be_made_ends_the_writer() -> None:
    """The next batch would have its number, and take the answer for its own."""
    one = batch()
    one._log.away = ConnectionError("in the middle of COMMIT")
    with pytest.raises(ConnectionError):
        one.take_up()
    assert one.failure is one._log.away
    one._log.away = None
    one.take_up()
    assert one._log.commits == []


def test_a_task_that_fails_is_set_aside_before_the_commit_without_it() -> None:
    one = batch()
    one._format = None
    one._topics = SimpleNamespace(get=lambda topic: TopicSpec(), settle=lambda topic: TopicSpec())
    one._groupings = SimpleNamespace(routes=lambda *_, **__: None)
    one._state = SimpleNamespace(write=lambda *_: [], built_on=lambda *_: [])
    one._progress = SimpleNamespace(error=lambda *_: None)
    empty = Gathered.of(FOUND_ARROW.empty_table()), ByteLedger(), Changes({}, [], PARTIALS.empty_table())

    def attempt(lines: Any, clock: Any, routes: Any, tasks: Any) -> Any:
        if tasks:
            raise TasksFailed(dict.fromkeys(tasks, "boom"))
        return empty

    one._attempt = attempt
    one._log.away = RuntimeError("killed")  # before the commit: the next start must find the task failed
    with pytest.raises(RuntimeError, match="killed"):
        one._count(None, {"0": 9})
    assert one._tasks.failed == [(1, 1, "boom")]
