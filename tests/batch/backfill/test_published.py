"""Which filled days were published before, on SQLite without a daemon."""

from __future__ import annotations

from datetime import date, timedelta

from sluice.batch.backfill.published import note, superseded
from sluice.runtime.days import today
from sluice.storage.tables.backfills import Backfills
from tests.batch.backfill.filled import book, fill, publish
from tests.storage.booked import DAY, ask, compute, database

__all__ = ["book", "database"]  # fixtures


def after(days: int) -> date:
    return DAY + timedelta(days=days)


def test_filled_days_that_were_published_before_are_superseded_until_they_are_published_again(
    book: Backfills,
) -> None:
    for n in (0, 1, 3, 9):
        publish(book, after(n))
    compute(book.engine, after(4))  # never published
    filled = fill(book, DAY, after(4))
    assert superseded(book.engine, [filled]) == [DAY, after(1), after(3)]
    publish(book, after(1), backfills=book.revision("logs"))
    assert superseded(book.engine, [filled]) == [DAY, after(3)]
    fill(book, after(9), after(9))  # of another backfill
    assert superseded(book.engine, [filled]) == [DAY, after(3)]
    assert superseded(book.engine, []) == []


def test_a_day_that_was_published_with_what_was_filled_is_not_superseded(book: Backfills) -> None:
    filled = fill(book, DAY, DAY)
    assert superseded(book.engine, [filled]) == []
    publish(book, DAY, backfills=book.revision("logs"))
    assert superseded(book.engine, [filled]) == []


def test_a_day_that_is_not_over_is_not_named_as_no_night_computes_it_now(book: Backfills) -> None:
    publish(book, today())
    assert superseded(book.engine, [fill(book, today(), today())]) == []


def test_a_backfill_that_goes_on_is_not_spoken_of(book: Backfills) -> None:
    publish(book, DAY)
    asked = ask(book, DAY, DAY)
    with book.filling(asked) as filling:
        filling.replace(DAY, [], 1)
    book.set_running(asked.id)
    assert superseded(book.engine, [book.get(asked.id)]) == []


def test_the_note_names_the_days_and_a_command_for_each_stretch() -> None:
    assert note([]) == ""
    assert note([DAY, after(1), after(3)]) == (
        "published before they were filled, and superseded: 2015-05-17 to 2015-05-18, 2015-05-20. Periods "
        "with published results keep them until these days are computed again. The next scheduled run of "
        "nightly_batch does it; to have it now: `sluice nightly --from 2015-05-17 --to 2015-05-18`, "
        "`sluice nightly --from 2015-05-20 --to 2015-05-20`"
    )
