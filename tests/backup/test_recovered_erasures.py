"""What was erased stays erased when PostgreSQL is made again from the archive, and all sums are right."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from sluice.archive import index, indexing, verification
from sluice.backup.archive_commits import ArchiveCommits
from sluice.erasure import accounts, redaction_run, request
from sluice.erasure.redaction_run import RedactionRun
from sluice.erasure.request import ErasureRequest
from sluice.runtime.settings import Settings
from sluice.storage.stores import LocalStore
from sluice.storage.tables import schema
from sluice.storage.tables.erasures import Erasure
from tests.archive.local_archive import PLACE
from tests.backup.stores import silent
from tests.erasure.two_books import PERSON, TwoBooks

MODULES = (request, accounts, redaction_run, index, sys.modules["sluice.archive.compaction"], verification)
ASKED = ErasureRequest("logs", "who", PERSON)


@pytest.fixture
def books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TwoBooks:
    """A topic with copies and dead letters; all is counted."""
    monkeypatch.setattr(verification, "HdfsStore", SimpleNamespace(of=lambda settings: LocalStore()))
    made = TwoBooks(tmp_path)
    use(made, monkeypatch)
    made.send(made.write(30))
    made.send(made.sent[10:20])
    made.send(made.write(20))
    made.count()
    return made


def use(books: TwoBooks, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in MODULES:
        monkeypatch.setattr(module, "engine", lambda settings: books.database)


def local(books: TwoBooks) -> Settings:
    settings = books.archive.settings
    hdfs = settings.hdfs.model_copy(update={"namenode": ""})  # paths of this machine
    return settings.model_copy(update={"hdfs": hdfs})


def erase(books: TwoBooks) -> Erasure:
    settings: Any = books.archive.settings
    erasure = ASKED.begin(settings, "host:ann")
    own = RedactionRun(settings, erasure, ASKED.lines(settings, erasure.cut), lambda _: None)
    return own.run(pause=lambda _: books.archive.age())


def recovered(books: TwoBooks, monkeypatch: pytest.MonkeyPatch) -> TwoBooks:
    """The same archive with a new database, which a recovery fills."""
    other = TwoBooks(books.folder)
    other.sent, other.archive.position = books.sent, books.archive.position
    use(other, monkeypatch)
    indexing.reconcile(other.database, other.archive.claims(), PLACE)
    ArchiveCommits(local(other), other.database, "logs").write(silent)
    with other.database.begin() as connection:
        for task in (1, 2):
            own = {"topic": "logs", "task_id": task, "version": 1, "first_seq": 1, "start": {}}
            connection.execute(sa.insert(schema.task_ranges).values(own))
    return other


def sums(books: TwoBooks) -> dict[str, int]:
    """What the commits and what was pruned of them have together."""
    names = ("records", "doubled", "counted", "dead", "redacted")
    with books.database.connect() as connection:
        counts = [row.counts for row in connection.execute(sa.select(schema.commits))]
        pruned = [row._mapping for row in connection.execute(sa.select(schema.pruned))]
    return {name: sum(each.get(name, 0) for each in [*counts, *pruned]) for name in names}


def test_an_erased_line_is_no_dead_letter_and_counts_nowhere(
    books: TwoBooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = erase(books)
    days, _, letters = books.speed_layer()
    other = recovered(books, monkeypatch)
    assert (other.speed_layer()[0], other.speed_layer()[2]) == (days, letters)
    assert other.batch_layer() == books.batch_layer()  # what a rebuild and a night count
    found, erased = sums(other), sums(books)["redacted"]
    assert found["redacted"] == erased == done.counts["counted"] + done.counts["dead"]
    assert found["records"] == found["doubled"] + found["counted"] + found["dead"] == 60 - erased
    assert (found["counted"], found["dead"], found["doubled"]) == (sum(n for _, n in days), letters, 10)


def test_a_day_of_nothing_else_is_computed_again(books: TwoBooks, monkeypatch: pytest.MonkeyPatch) -> None:
    for client in ("10.0.0.2", "10.0.0.11", PERSON):
        asked = ErasureRequest("logs", "who", client)
        settings: Any = books.archive.settings
        erasure = asked.begin(settings, "host:ann")
        lines = asked.lines(settings, erasure.cut)
        RedactionRun(settings, erasure, lines, silent).run(pause=lambda _: books.archive.age())
    other = recovered(books, monkeypatch)
    assert [lines for _, lines in other.speed_layer()[0]] == [0, 0]
    with other.database.connect() as connection:
        last = connection.scalars(sa.select(schema.event_days.c.last_offset)).all()
    assert all(last)
    assert sums(other) == {"records": 10, "doubled": 10, "counted": 0, "dead": 0, "redacted": 50}


def test_copies_that_come_after_it_are_doubles_and_are_erased_without_a_second_account(
    books: TwoBooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    erase(books)
    other = recovered(books, monkeypatch)
    other.send(other.sent)  # a front-end sends all again, and the archiver takes it
    ArchiveCommits(local(other), other.database, "logs").write(silent)
    before = other.speed_layer(), sums(other)
    assert before[1]["doubled"] == 60
    assert before[1]["redacted"] == sums(books)["redacted"]
    done = erase(other)
    assert (done.counts["counted"], done.counts["dead"]) == (0, 0)
    assert (other.speed_layer(), sums(other)) == before
    text = [each["line"] for each in other.records().to_pylist()]
    assert not any(PERSON.encode() + b" " in each for each in text)


def test_copies_are_not_accounted_twice_without_a_loss_either(books: TwoBooks) -> None:
    erase(books)
    books.send(books.sent)
    with books.database.begin() as connection:
        connection.execute(sa.update(schema.commits).values(end={"3": books.archive.position}))
    before = books.speed_layer(), sums(books)
    assert erase(books).counts["counted"] == 0
    assert (books.speed_layer(), sums(books)) == before
