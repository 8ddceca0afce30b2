"""`sluice erase`: what it asks for, says and goes on with; the platform's parts are tested by themselves."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
import sqlalchemy as sa
import typer
from typer.testing import CliRunner

from sluice.cli import erase as module
from sluice.cli.erase import BadErasure, runs_of
from sluice.erasure import kafka_records, redaction_run, request
from sluice.erasure.matching import UnknownErasureDimension
from sluice.storage import postgres
from sluice.storage.tables import alerts, history, schema
from sluice.storage.tables.erasures import ALERTS, Erasures, ErasureState, NotAbandoned
from sluice.tasks.store import TaskStore
from tests.storage.booked import commit, database

__all__ = ["database"]  # a fixture

PERSON = "10.0.0.1"
ASKED = ("logs", "--dimension", "client", "--value", PERSON)


@pytest.fixture
def book(database: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> Erasures:
    """A topic that is counted; the archive and Kafka are out of reach."""
    commit(database, 1, 0, 100)
    monkeypatch.setattr(postgres, "engine", lambda settings: database)
    monkeypatch.setattr(request, "engine", lambda settings: database)
    monkeypatch.setattr(kafka_records, "delete_read", lambda settings, topic: "Kafka's records are deleted")

    class NoArchive:
        """Nothing is redacted, but the state is noted."""

        def __init__(self, settings: Any, erasure: Any, value: Any, tell: Any) -> None:
            self.number = erasure.id
            assert value.value == PERSON

        def run(self) -> Any:
            Erasures(database).set_state(self.number, ErasureState.REDACTED)
            return Erasures(database).get(self.number)

    monkeypatch.setattr(redaction_run, "RedactionRun", NoArchive)
    return Erasures(database)


def sluice(*arguments: str, text: str | None = None) -> Any:
    app = typer.Typer()
    app.command()(module.erase)
    return CliRunner().invoke(app, arguments, input=text)


def test_it_is_carried_out_and_recorded_without_the_value(book: Erasures) -> None:
    done = sluice(*ASKED)
    assert done.exit_code == 0, done.output
    assert "erasure 1 of logs begins" in done.stdout
    assert "Kafka's records are deleted" in done.stdout
    assert "not reached: the front-ends' own files; backups" in done.stdout
    assert done.stdout.endswith("erasure 1 is finished\n")
    (kept,) = book.all()
    assert (kept.state, kept.dimension, kept.is_of(PERSON)) == (ErasureState.FINISHED, "client", True)
    with book.engine.connect() as connection:
        said = str([connection.execute(sa.select(table)).all() for table in schema.metadata.tables.values()])
    assert PERSON not in said
    (entry,) = history.entries(book.engine, what="topic", name="logs")
    assert (entry.action, entry.after) == ("erased", "lines of one client; first day to last day")
    listed = sluice("--list")
    assert "client" in listed.stdout
    assert "finished" in listed.stdout
    assert sluice("shop", "--list").stdout.count("\n") == 2


def test_the_same_command_goes_on_and_another_value_does_not(
    book: Erasures, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(settings: Any, topic: str) -> str:
        raise ConnectionError("Kafka is away")

    monkeypatch.setattr(kafka_records, "delete_read", away)
    assert sluice(*ASKED).exit_code
    assert book.get(1).state == ErasureState.REDACTED
    monkeypatch.setattr(kafka_records, "delete_read", lambda settings, topic: "")
    again = sluice("logs", "--dimension", "client", "--value", "-", text=f"{PERSON}\n")
    assert "erasure 1 of logs goes on" in again.stdout
    assert (len(book.all()), book.get(1).state) == (1, ErasureState.FINISHED)


def test_a_task_that_cannot_be_counted_again_is_named(
    book: Erasures, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = {(1, 1, start): "it raises" for start in (0, 60_000)}
    monkeypatch.setattr(module, "_count_again", lambda settings, erasure: failed)
    done = sluice(*ASKED)
    name = TaskStore(book.engine).version(1, 1).spec.name
    assert done.exit_code == 1
    assert f"task {name} (1v1) could not be counted again: it raises" in done.stdout
    assert "of 2 periods is deleted, with its results" in done.stdout
    assert f"`sluice rebuild logs --task {name}` counts them" in done.stdout
    assert book.get(1).state == ErasureState.FINISHED


def test_an_erasure_that_redacted_nothing_can_be_abandoned(
    book: Erasures, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redaction_run, "engine", lambda settings: book.engine)
    with book.engine.connect() as connection:
        raw: Any = connection.connection.driver_connection
        raw.create_function("pg_try_advisory_lock", 1, lambda key: 1)
    for value in ("10.0.0.l", PERSON):
        book.begin("logs", "client", value, cut={"0": 100}, user="host:ann")
    assert "is of topic 'logs'" in str(sluice("shop", "--abandon", "1").exception)
    done = sluice("logs", "--abandon", "1")
    assert (done.exit_code, done.stdout) == (0, "erasure 1 of logs is abandoned: no line was erased\n")
    assert [(each.id, each.state) for each in book.all()] == [(1, "abandoned"), (2, "redacting")]
    assert [each.id for each in book.unfinished("logs")] == [2]
    (alert,) = alerts.open_alerts(book.engine, ALERTS)
    assert alert.message.startswith("erasure 2 of topic logs")
    assert "the erasure is abandoned already" in str(sluice("logs", "--abandon", "1").exception)
    assert "there is no erasure 7" in str(sluice("logs", "--abandon", "7").exception)
    with book.engine.begin() as connection:
        connection.execute(sa.update(schema.erasures).values(counts={"lines": 3}))
    book.set_state(2, ErasureState.REDACTED)
    refused = sluice("logs", "--abandon", "2")
    assert isinstance(refused.exception, NotAbandoned)
    assert "3 lines are redacted already" in str(refused.exception)
    assert "give the command of host:ann of" in str(refused.exception)
    assert book.get(2).state == ErasureState.REDACTED


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "name the TOPIC, the --dimension and the --value"),
        (("logs", "--value", "x"), "name the TOPIC"),
        (
            (*ASKED, "--from", "2015-05-18", "--to", "2015-05-17"),
            "--from 2015-05-18 is after --to 2015-05-17",
        ),
    ],
)
def test_what_is_missing_or_does_not_fit_is_named(
    book: Erasures, arguments: tuple[str, ...], why: str
) -> None:
    refused = sluice(*arguments)
    assert isinstance(refused.exception, BadErasure)
    assert why in str(refused.exception)
    assert book.all() == []


def test_an_unknown_dimension_begins_nothing(book: Erasures) -> None:
    refused = sluice("logs", "--dimension", "whom", "--value", "x")
    assert isinstance(refused.exception, UnknownErasureDimension)
    assert book.all() == []


def test_days_that_follow_each_other_are_counted_again_together() -> None:
    days = [dt.date(2015, 5, n) for n in (1, 2, 3, 7, 9, 10)]
    assert [(first.day, last.day) for first, last in runs_of(days)] == [(1, 3), (7, 7), (9, 10)]
