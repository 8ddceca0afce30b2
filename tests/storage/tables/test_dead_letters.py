"""Dead letters are looked for within bounds, so that a page about many of them harms nobody; all of them, in
order, for whoever takes the time.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables import dead_letters, schema
from sluice.storage.tables.dead_letters import (
    LetterFilter,
    all_in_order,
    at_place,
    by_reason,
    groups,
    has_letters,
    newest,
    newest_of,
)
from tests.letters.made import AT, book, letter
from tests.tasks.database import sqlite

LONG_AGO = datetime(2015, 5, 17, tzinfo=UTC)


def test_postgres_is_told_how_long_it_may_look(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[Any, ...]] = []
    database = sqlite()
    with database.connect() as connection:
        own = connection.connection.dbapi_connection
        own.create_function("set_config", 3, lambda *given: told.append(given))  # type: ignore[union-attr]
        own.create_function("timezone", 2, lambda zone, at: at)  # type: ignore[union-attr]
    monkeypatch.setattr(database.dialect, "name", "postgresql")
    assert newest(database, "logs") == []
    assert by_reason(database, "logs", LONG_AGO) == {}
    assert told == [("statement_timeout", "5s", 1)] * 2  # 1: for this transaction


@pytest.mark.stack
def test_what_takes_too_long_is_given_up(stack: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "PATIENCE", "100ms")
    database = engine(stack)
    with database.begin() as other:
        other.execute(sa.text("LOCK TABLE dead_letters IN ACCESS EXCLUSIVE MODE"))
        with pytest.raises(OperationalError, match="statement timeout"):
            newest(database, "logs")
        with pytest.raises(OperationalError, match="statement timeout"):
            by_reason(database, "logs", LONG_AGO)
    with database.connect() as connection:
        assert connection.scalar(sa.text("SHOW statement_timeout")) == "0"


def test_groups_count_by_reason_partition_and_file() -> None:
    database = sqlite()
    book(
        database,
        *(letter(n) for n in range(3)),
        letter(3, src_file="b.log"),
        letter(4, partition=1, reason="forged"),
        letter(5, topic="other"),
    )
    found = list(groups(database, LetterFilter("logs")))
    assert [(g.reason, g.partition, g.src_file, g.letters) for g in found] == [
        ("no event time", 0, "a.log", 3),
        ("forged", 1, "a.log", 1),
        ("no event time", 0, "b.log", 1),
    ]
    assert [each.replace(tzinfo=UTC) for each in (found[0].first, found[0].last)] == [
        AT,
        AT + timedelta(seconds=2),
    ]
    (only,) = groups(database, LetterFilter("logs", "forged"))
    assert only.letters == 1


def test_a_filter_goes_by_reason_and_arrival() -> None:
    database = sqlite()
    book(database, *(letter(n) for n in range(5)), letter(5, reason="forged"))
    chosen = LetterFilter("logs", "no event time", AT + timedelta(seconds=1), AT + timedelta(seconds=4))
    assert [each.offset for each in all_in_order(database, chosen)] == [1, 2, 3]
    assert [each.offset for each in newest_of(database, chosen, 2)] == [3, 2]
    assert [each.offset for each in newest(database, "logs", day=AT.date(), limit=1)] == [5]


def test_all_come_in_order_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "PAGE", 3)
    database = sqlite()
    some = [letter(n, partition=p, line_in_record=k) for p in (1, 0) for n in (2, 10) for k in (1, 0)]
    book(database, *some)
    found = [each.key for each in all_in_order(database, LetterFilter("logs"))]
    assert found == sorted(each.key for each in some)


def test_a_letter_has_a_place() -> None:
    database = sqlite()
    book(database, letter(7, line_in_record=2))
    found = at_place(database, "logs", 0, 7, 2)
    assert found is not None
    assert found.place == "0/7.2"
    assert at_place(database, "logs", 0, 7, 1) is None


@pytest.mark.stack
def test_postgres_reads_all_in_order(stack: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters, "PAGE", 2)
    topic, database = f"letters_{secrets.token_hex(5)}", engine(stack)
    some = [
        letter(n, topic=topic, partition=p, line_in_record=k) for p in (1, 0) for n in (2, 10) for k in (1, 0)
    ]
    book(database, *some)
    chosen = LetterFilter(topic, "no event time", AT, AT + timedelta(hours=1))
    assert [each.key for each in all_in_order(database, chosen)] == sorted(each.key for each in some)
    assert [(each.partition, each.letters) for each in groups(database, chosen)] == [(0, 4), (1, 4)]
    assert at_place(database, topic, 1, 10, 0) == letter(10, topic=topic, partition=1)
    assert [each.offset for each in newest_of(database, chosen, 1)] == [10]
    assert has_letters(database, topic)
    with database.begin() as connection:
        connection.execute(sa.delete(schema.dead_letters).where(schema.dead_letters.c.topic == topic))
    assert not has_letters(database, topic)
