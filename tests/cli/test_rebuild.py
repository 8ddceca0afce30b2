"""What a person sees of a rebuild."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
import typer
from typer.testing import CliRunner

from sluice.batch.rebuild import ask
from sluice.batch.rebuild.ask import NothingCountable
from sluice.batch.rebuild.scope import PlannedDay
from sluice.cli import rebuild as module
from sluice.cli.rebuild import RebuildFailed, follow_rebuild
from sluice.runtime.days import begin_ms
from sluice.storage import postgres
from sluice.storage.tables import schema
from sluice.storage.tables.epochs import StatePeriod
from sluice.storage.tables.rebuilds import Rebuilds
from sluice.storage.tables.recounts import BlockDamage, Recounts
from tests.storage.booked import DAY, NEXT, commit, database

__all__ = ["database"]  # a fixture

LOST = StatePeriod(1, 1, begin_ms(DAY), 1, 1, 5, 100)


@pytest.fixture
def book(database: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> Rebuilds:
    commit(database, 1, 0, 100)
    with database.begin() as connection:
        connection.execute(sa.insert(schema.state_periods).values(topic="logs", **vars(LOST)))
    monkeypatch.setattr(postgres, "engine", lambda settings: database)
    return Rebuilds(database, patience=0)


def sluice(*arguments: str) -> Any:
    app = typer.Typer()
    app.command()(module.rebuild)
    return CliRunner().invoke(app, arguments)


class Steps:
    """A rebuild that gets further each time it is read."""

    def __init__(self, book: Rebuilds, *steps: Any) -> None:
        self.book, self.steps = book, list(steps)

    def get(self, number: int) -> Any:
        if self.steps:
            self.steps.pop(0)()
        return self.book.get(number)


def test_it_is_asked_for_and_followed(book: Rebuilds) -> None:
    asked = sluice("logs", "--no-wait")
    assert asked.exit_code == 0, asked.output
    assert "logs: rebuild 1 of 1 task versions was asked for" in asked.stdout
    assert book.get(1).versions == ((1, 1),)
    said: list[str] = []
    steps = [
        lambda: None,
        lambda: book.begin(1, [LOST.key], [DAY]),
        lambda: book.stage(1, DAY, [], 1_234),
        lambda: book.switch(1),
        lambda: book.finish(1),
    ]
    follow_rebuild(Steps(book, *steps), 1, said.append, pause=0)  # type: ignore[arg-type]
    assert said == [
        "waits for the DAG rebuild",
        "counting: 0 of 1 days, 0 lines",
        "counting: 1 of 1 days, 1,234 lines",
        "its blocks count; its results are being written",
        "finished: 1 days, 1,234 lines",
    ]


def test_a_failed_try_is_said_with_what_happens_next(book: Rebuilds) -> None:
    number = book.request("logs", [(1, 1)], user="ann").id
    book.set_failed(number, "HDFS is away")
    with pytest.raises(RebuildFailed, match=r"HDFS is away\. It goes on where it was in two minutes"):
        follow_rebuild(book, number, print, pause=0)
    assert "the last try failed: HDFS is away" in sluice("logs", "--list").stdout


def test_one_that_waits_has_not_failed(book: Rebuilds) -> None:
    number = book.request("logs", [(1, 1)], user="ann").id
    said: list[str] = []
    steps = [
        lambda: book.set_waiting(number, "Kafka lost records"),
        lambda: book.set_running(number),
        lambda: book.begin(number, [], []),
        lambda: book.switch(number),
        lambda: book.finish(number),
    ]
    follow_rebuild(Steps(book, *steps), number, said.append, pause=0)  # type: ignore[arg-type]
    assert said[0] == "waits: Kafka lost records"
    other = book.request("logs", [(1, 1)], user="ann").id
    book.set_waiting(other, "Kafka lost records")
    assert "asked for by ann: waits: Kafka lost records\n" in sluice("logs", "--list").stdout


def test_periods_of_which_retention_deleted_lines_are_left_out_and_said(book: Rebuilds) -> None:
    later = StatePeriod(1, 1, begin_ms(NEXT), 1, 1, 5, 100)
    with book.engine.begin() as connection:
        connection.execute(sa.insert(schema.archive_expired_days).values(topic="logs", day=DAY, lines=3))
    refused = sluice("logs", "--no-wait")
    assert isinstance(refused.exception, NothingCountable)
    assert "retention deleted lines of their days from the archive" in str(refused.exception)
    assert book.unfinished() == []
    with book.engine.begin() as connection:
        connection.execute(sa.insert(schema.state_periods).values(topic="logs", **vars(later)))
    asked = sluice("logs", "--no-wait")
    assert "1 periods are left out" in asked.stdout
    listed = Recounts(book.engine, "logs")
    listed.set_aside([BlockDamage(LOST.key, "block x is not in HBase", LOST)])
    listed.expire([LOST.key])
    assert "is not in HBase (cannot be counted again: retention deleted" in sluice("logs", "--list").stdout


def test_nobody_who_takes_it_up_is_said(book: Rebuilds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TAKEN_SECONDS", -1.0)
    number = book.request("logs", [(1, 1)], user="ann").id
    said: list[str] = []
    steps = [
        lambda: None,
        lambda: None,
        lambda: book.begin(number, [], []),
        lambda: book.switch(number),
        lambda: book.finish(number),
    ]
    follow_rebuild(Steps(book, *steps), number, said.append, pause=0)  # type: ignore[arg-type]
    assert sum("see that the DAG rebuild is not paused" in each for each in said) == 1


def test_a_dry_run_says_what_would_be_counted_and_asks_for_nothing(
    book: Rebuilds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        ask, "planned", lambda settings, topic, days: [PlannedDay(day, 3, 5_000, 3 << 20) for day in days]
    )
    found = sluice("logs", "--dry-run")
    assert found.exit_code == 0, found.output
    assert "(1v1): 1 periods" in found.stdout
    assert "1 periods, 1 days, 5,000 lines (doubles included); 3 files of 3.0 MiB" in found.stdout
    assert book.unfinished() == []


def test_what_is_counted_again_is_listed(book: Rebuilds) -> None:
    assert "nothing of logs is being counted again" in sluice("logs", "--list").stdout
    Recounts(book.engine, "logs").set_aside([BlockDamage(LOST.key, "block x is not in HBase", LOST)])
    listed = sluice("logs", "--list").stdout
    assert "1v1 2015-05-17T00:00:00Z: block x is not in HBase (waits for a rebuild)" in listed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("other",), "topic 'other' has no state"),
        (("logs", "--task", "nosuch"), "nosuch"),
        (("logs", "--from", "2015-05-18", "--to", "2015-05-17"), "name the earlier day first"),
        (("logs", "--from", "2015-05-18", "--dry-run"), "no state of days from 2015-05-18 to the last"),
    ],
)
def test_what_cannot_be_rebuilt_is_refused(book: Rebuilds, arguments: tuple[str, ...], message: str) -> None:
    found = sluice(*arguments)
    assert found.exit_code != 0
    assert message in str(found.exception)
