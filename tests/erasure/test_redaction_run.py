"""After an erasure both layers agree, and are as if they had never had the lines: `planning`, `accounts`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import sqlalchemy as sa

from sluice.archive import index, redaction, verification
from sluice.archive.compaction import ErasureUnderWay, compact
from sluice.batch.backfill.backfill import ErasureCutShort, _Run
from sluice.erasure import accounts, copies, redaction_run, request
from sluice.erasure.planning import ErasurePlan
from sluice.erasure.redaction_run import ErasureAbandoned, RedactionRun, abandon, planned
from sluice.erasure.request import ErasureRequest, NothingErasable
from sluice.storage.stores import LocalStore
from sluice.storage.tables import schema
from sluice.storage.tables.alerts import open_alerts
from sluice.storage.tables.backfills import Backfills
from sluice.storage.tables.days import Days
from sluice.storage.tables.erasures import ALERTS, Erasure, Erasures, ErasureState, NotAbandoned
from sluice.storage.tables.tallies import COUNTS
from tests.archive.local_archive import Killed
from tests.erasure.two_books import DAYS, PERSON, TwoBooks

ASKED = ErasureRequest("logs", "who", PERSON)
MODULES = (request, accounts, redaction_run, index, sys.modules["sluice.archive.compaction"], verification)


@pytest.fixture
def books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TwoBooks:
    """Two files, a resend of parts of both, and another file; all is counted."""
    made = TwoBooks(tmp_path)
    for module in MODULES:
        monkeypatch.setattr(module, "engine", lambda settings: made.database)
    monkeypatch.setattr(verification, "HdfsStore", SimpleNamespace(of=lambda settings: LocalStore()))
    made.send(made.write(24))
    made.send(made.write(12))
    made.send(made.sent[10:30])
    made.send(made.write(8))
    made.count()
    return made


def erase(books: TwoBooks, asked: ErasureRequest = ASKED) -> Erasure:
    settings: Any = books.archive.settings
    erasure = asked.unfinished(settings) or asked.begin(settings, "host:ann")
    own = RedactionRun(settings, erasure, asked.lines(settings, erasure.cut), lambda _: None)
    return own.run(pause=lambda _: books.archive.age())


def plan_of(books: TwoBooks, asked: ErasureRequest = ASKED) -> ErasurePlan:
    settings: Any = books.archive.settings
    return planned(settings, "logs", asked.lines(settings, asked.newest_cut(settings)))


def without(books: TwoBooks, tmp_path: Path, gone: Callable[[bytes], bool]) -> Any:
    """What the batch layer makes of a topic that never had these lines."""
    other = TwoBooks(tmp_path / "other")
    other.send([each for each in books.sent if not gone(each[1])])
    with other.database.begin() as connection:
        for task in (1, 2):
            own = {"topic": "logs", "task_id": task, "version": 1, "first_seq": 1, "start": {}}
            connection.execute(sa.insert(schema.task_ranges).values(own))
    return other.batch_layer()


def of_person(text: bytes) -> bool:
    return text.split(b" ")[0] == PERSON.encode()


def test_both_layers_are_as_if_they_had_never_had_the_lines(books: TwoBooks, tmp_path: Path) -> None:
    assert books.speed_layer() == books.batch_layer()
    done = erase(books)
    assert books.speed_layer() == books.batch_layer() == without(books, tmp_path, of_person)
    text = [each["line"] for each in books.records().to_pylist()]
    assert not any(PERSON.encode() + b" " in each for each in text)
    assert len(text) == 64
    assert any(b"10.0.0.11" in each for each in text)
    own = [each for each in books.sent if of_person(each[1])]
    dead = [each for each in own if b"no" in each[1]]
    assert 0 < len(dead) < len(own)
    assert (done.state, done.days) == (ErasureState.REDACTED, DAYS)
    assert (done.counts["counted"], done.counts["dead"]) == (len(own) - len(dead), len(dead))
    assert done.counts["lines"] == len(own) + sum(of_person(each) for _, each in books.sent[10:30])
    with books.database.connect() as connection:
        sums = connection.execute(sa.select(schema.pruned)).one()
    assert (sums.redacted, sums.records) == (len(own), -len(own))
    assert (sums.counted, sums.dead, sums.doubled) == (len(dead) - len(own), -len(dead), 0)


def test_a_resend_brings_no_erased_line_back(books: TwoBooks) -> None:
    erase(books)
    after = books.batch_layer()
    books.send(books.sent)
    assert books.batch_layer() == after


def test_copies_that_came_after_an_erasure_are_not_taken_from_the_sums_again(books: TwoBooks) -> None:
    first = erase(books)
    Erasures(books.database).set_state(first.id, ErasureState.FINISHED)
    after = books.speed_layer()
    books.send(books.sent[5:])  # doubles, as the ledger knows
    books.end_commit()
    assert ", 0 first copies, " in str(plan_of(books))
    again = erase(books)
    assert again.counts["lines"] == sum(of_person(each) for _, each in books.sent[5:])
    assert (again.counts["counted"], again.counts["dead"]) == (0, 0)
    assert books.speed_layer() == books.batch_layer() == after
    text = [each["line"] for each in books.records().to_pylist()]
    assert not any(PERSON.encode() + b" " in each for each in text)


def test_a_copy_without_a_time_that_came_on_another_day_is_no_first_one(books: TwoBooks) -> None:
    books.send(books.sent, days_later=1)
    books.end_commit()
    asked = ErasureRequest("logs", "who", PERSON, first_day=DAYS[1])
    before = books.speed_layer()
    own = [text for _, text in books.sent if of_person(text)]
    dead, timed = [b"no" in text for text in own].count(True), [b"[18/" in text for text in own].count(True)
    assert dead
    assert f", {timed} first copies, " in str(plan_of(books, asked))
    done = erase(books, asked)
    assert (done.counts["counted"], done.counts["dead"]) == (timed, 0)
    assert done.counts["lines"] >= dead + 2 * timed
    assert books.speed_layer() == books.batch_layer()
    assert books.speed_layer()[2] == before[2]


@pytest.mark.parametrize(
    "point", ["erasure_noted", "archive_after_rename", "archive_redacted", "archive_replaced_deleted"]
)
@pytest.mark.parametrize("times", [1, 2])
def test_a_run_that_died_is_ended_by_the_same_command(
    books: TwoBooks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, times: int
) -> None:
    left = times

    def reached(at: str) -> None:
        nonlocal left
        left -= at == point
        if at == point and not left:
            raise Killed

    for module in (redaction, sys.modules["sluice.archive.claim"]):
        monkeypatch.setattr(module, "crash_point", reached)
    with pytest.raises(Killed):
        erase(books)
    with pytest.raises(ErasureUnderWay, match="give an unfinished command again"):
        list(compact(books.archive.settings, "logs"))
    erase(books)
    assert books.speed_layer() == books.batch_layer() == without(books, tmp_path, of_person)
    assert len(Erasures(books.database).all()) == 1
    assert books.archive.verified().problems == ()


def test_a_filled_day_that_is_not_projected_loses_its_tallies_too(books: TwoBooks, tmp_path: Path) -> None:
    t, end = schema.tallies, {"3": books.archive.position}
    of_task = t.c.task_id == 2
    row = {"task_id": 2, "version": 1, "day": DAYS[0], "topic": "logs", "backfill_id": 1, "revision": 1}
    with books.database.begin() as connection:
        born = sa.update(schema.task_ranges).where(schema.task_ranges.c.task_id == 2)
        connection.execute(born.values(start=end))  # all lines are the backfill's
        connection.execute(sa.insert(schema.backfill_days).values(row | {"lines": 1, "projected": False}))
        connection.execute(sa.delete(t).where(of_task, t.c.day != DAYS[0]))
        connection.execute(sa.update(t).where(of_task).values(layer="filled"))
    erase(books)
    _, wanted, _ = without(books, tmp_path, of_person)
    with books.database.connect() as connection:
        columns = t.c.day, t.c.task_id, t.c.version, *(t.c[name] for name in COUNTS)
        (found,) = connection.execute(sa.select(*columns).where(of_task)).all()
    assert tuple(found) == next(each for each in wanted if each[:2] == (DAYS[0], 2))


def test_no_backfill_fills_days_while_a_file_is_begun(
    books: TwoBooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reached(at: str) -> None:
        if at == "erasure_noted":
            raise Killed

    monkeypatch.setattr(redaction, "crash_point", reached)
    with pytest.raises(Killed):
        erase(books)
    book, nobody = Backfills(books.database), cast(Any, None)
    asked = book.request(1, 1, topic="logs", first_day=DAYS[0], last_day=DAYS[0], user="ann")
    with pytest.raises(ErasureCutShort, match="erasure 1 of topic 'logs' was cut short"):
        _Run.of(nobody, books.archive.settings, book, asked, nobody)


@pytest.mark.parametrize(("point", "redacted"), [("erasure_noted", False), ("archive_after_rename", True)])
def test_it_can_be_abandoned_until_a_redacted_file_stands(
    books: TwoBooks, monkeypatch: pytest.MonkeyPatch, point: str, redacted: bool
) -> None:
    def reached(at: str) -> None:
        if at == point:
            raise Killed

    before = books.batch_layer()
    with monkeypatch.context() as killed:
        for module in (redaction, sys.modules["sluice.archive.claim"]):
            killed.setattr(module, "crash_point", reached)
        with pytest.raises(Killed):
            erase(books)
    book = Erasures(books.database)
    settings: Any = books.archive.settings
    with pytest.raises(NotAbandoned, match="are redacted already") if redacted else nullcontext():
        abandon(settings, book.get(1), "host:ann")
    assert book.noted("logs") == set()
    if not redacted:
        assert (book.get(1).state, book.unfinished("logs")) == (ErasureState.ABANDONED, [])
        assert books.speed_layer() == books.batch_layer() == before
        assert ASKED.unfinished(settings) is None
        assert list(compact(settings, "logs"))


def test_a_run_that_waited_while_it_was_abandoned_erases_nothing(books: TwoBooks) -> None:
    settings: Any = books.archive.settings
    erasure, names = ASKED.begin(settings, "host:ann"), books.archive.names()
    own = RedactionRun(settings, erasure, ASKED.lines(settings, erasure.cut), lambda _: None)
    abandon(settings, erasure, "host:bob")
    with pytest.raises(ErasureAbandoned, match="erasure 1 of topic 'logs' was abandoned meanwhile"):
        own.run()
    assert books.archive.names() == names


def test_only_lines_of_the_days_and_before_the_cut_are_erased(books: TwoBooks, tmp_path: Path) -> None:
    asked = ErasureRequest("logs", "client", PERSON, DAYS[1], DAYS[1])
    settings: Any = books.archive.settings
    erasure = asked.begin(settings, "host:ann")
    later = books.write(12)  # it comes after the command began
    books.send(later)
    done = erase(books, asked)
    assert (done.id, done.days) == (erasure.id, (DAYS[1],))
    assert done.counts["dead"] == 0  # they arrived on the day before
    text = [each["line"] for each in books.records().to_pylist()]
    assert sum(of_person(each) for each in text) == sum(
        of_person(each) and (b"[18/May" not in each or (at, each) in later)
        for at, each in [*books.sent[:44], *books.sent[10:30], *later]
    )


def test_a_dry_run_counts_and_changes_nothing(books: TwoBooks) -> None:
    names, before = books.archive.names(), books.speed_layer()
    found = str(plan_of(books))
    assert (books.archive.names(), books.speed_layer()) == (names, before)
    done = erase(books)
    first = done.counts["counted"] + done.counts["dead"]
    assert found.startswith(f"{done.counts['lines']} lines, {first} first copies, ")
    assert found.endswith("4 files of the archive, 2 days of event time")


def test_a_day_that_was_computed_before_is_computed_again(books: TwoBooks) -> None:
    book = Days(books.database, "logs")
    erase(books)
    cut = {"3": books.archive.position}
    with books.database.begin() as connection:
        for day in (DAYS[0], date(2015, 5, 20)):
            row = {"topic": "logs", "day": day, "cut": cut, "run_id": "r", "tasks_seq": 1, "raw_lines": 1}
            row |= {"lines": 1, "backfills": 0, "computed_at": datetime(2026, 1, 1, tzinfo=UTC)}
            connection.execute(sa.insert(schema.days).values(row))
    assert book.marked() == [DAYS[0]]
    computed = book.get(DAYS[0])
    assert computed is not None
    assert book.superseded(computed) == "erasure 1 took lines of the day after it was computed"


def test_an_erasure_that_is_not_finished_has_an_alert(books: TwoBooks) -> None:
    erasure = erase(books)
    (alert,) = open_alerts(books.database, ALERTS)
    assert "give the same `sluice erase` command again" in alert.message
    assert PERSON not in alert.message
    assert ASKED.unfinished(books.archive.settings) == erasure
    assert ErasureRequest("logs", "who", "10.0.0.2").unfinished(books.archive.settings) is None
    Erasures(books.database).set_state(erasure.id, ErasureState.FINISHED)
    assert open_alerts(books.database, ALERTS) == []
    assert ASKED.unfinished(books.archive.settings) is None


def test_a_topic_without_counted_lines_is_refused(books: TwoBooks) -> None:
    with pytest.raises(NothingErasable, match="'shop' has no counted lines"):
        ErasureRequest("shop", "who", PERSON).newest_cut(books.archive.settings)


def test_the_first_copy_is_the_one_that_arrived_first(books: TwoBooks) -> None:
    found = copies.ErasedCopies("logs")
    whole = books.records().combine_chunks().to_batches()[0]
    for begin in (40, 0, 20):  # in any order
        found.add(whole.slice(begin, 20 if begin < 40 else len(whole) - 40))
    first = found.first(whole)
    assert (len(found), int(first.sum())) == (44, 44)
    assert not first[36:56].any()  # the resend
