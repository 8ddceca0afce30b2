"""What a person sees of a backfill."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from typer.testing import CliRunner

from sluice.batch.backfill.ask import BadDays, check_days
from sluice.batch.backfill.published import note
from sluice.cli import backfill as module
from sluice.cli import main
from sluice.cli.backfill import BackfillFailed, follow
from sluice.storage import postgres
from sluice.storage.tables.backfills import Backfill, Backfills
from tests.batch.backfill.filled import book, fill, publish
from tests.storage.booked import database

__all__ = ["book", "database"]  # fixtures

DAY = date(2015, 5, 17)


def state(name: Any, done: int, message: str | None = None) -> Backfill:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Backfill(
        7, 3, 2, "logs", DAY, date(2015, 5, 19), name, done, "ann", now, None, "manual__1", message
    )


class Book:
    """A backfill that has got further each time it is read."""

    def __init__(self, *states: Backfill) -> None:
        self.states = list(states)

    def get(self, number: int) -> Any:
        assert number == 7
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]


def watch(book: Book, *ended: str | None) -> list[str]:
    answers = list(ended)
    said: list[str] = []
    follow(book, 7, lambda: answers.pop(0) if answers else None, said.append, pause=0)  # type: ignore[arg-type]
    return said


def test_progress_is_said_once_a_step() -> None:
    running = state("running", 0)
    book = Book(state("requested", 0), running, running, state("running", 2), state("finished", 3))
    assert watch(book) == [
        "requested: 0 of 3 days", "running: 0 of 3 days", "running: 2 of 3 days", "finished: 3 of 3 days",
    ]  # fmt: skip


def test_a_failed_try_is_followed_by_another_one() -> None:
    failed = state("failed", 1, "HBase is away")
    book = Book(failed, failed, failed, failed, state("running", 1), state("finished", 3))
    assert watch(book, None, None) == [
        "failed: 1 of 3 days (HBase is away); Airflow tries again, or gives up",
        "running: 1 of 3 days",
        "finished: 3 of 3 days",
    ]


def test_a_run_that_failed_for_good_names_its_reason() -> None:
    with pytest.raises(BackfillFailed, match=r"failed after 1 of 3 days: ValueError: no\. .*clear its run"):
        watch(Book(state("failed", 1, "ValueError: no")), "failed")


def test_a_run_that_died_without_a_word_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AIRFLOW_SECONDS", 0.0)
    with pytest.raises(BackfillFailed, match="its run in Airflow is failed"):
        watch(Book(state("running", 1)), "failed")


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [
        (date(2015, 5, 18), DAY, "--from 2015-05-18 is after --to 2015-05-17"),
        (DAY, date(2026, 1, 4), "--to 2026-01-04 is in the future"),
    ],
)
def test_days_that_cannot_be_filled(first: date, last: date, said: str) -> None:
    with pytest.raises(BadDays, match=said):
        check_days(first, last, date(2026, 1, 2))
    check_days(DAY, DAY, date(2026, 1, 2))


def test_the_end_names_the_days_whose_published_results_are_superseded(
    book: Backfills, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(main, "_enter", lambda: None)  # no instance runs
    monkeypatch.setattr(postgres, "engine", lambda settings: book.engine)
    monkeypatch.setattr(module, "ask", lambda settings, name, first, last, user: fill(book, first, last))
    publish(book, DAY)
    asked = ["tasks", "backfill", "hits", "--from", "2015-05-17", "--to", "2015-05-18"]
    shown = CliRunner().invoke(main.app, asked)
    assert (shown.exit_code, shown.exception) == (0, None)
    assert shown.stdout.splitlines()[-2:] == ["finished: 0 of 2 days", note([DAY])]
    publish(book, DAY, backfills=book.revision("logs") + 4)
    assert CliRunner().invoke(main.app, asked).stdout.splitlines()[-1] == "finished: 0 of 2 days"
