from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.settings import Settings
from sluice.storage.hive import Hive, SqlFailed, SqlUnavailable, literal

SPECIAL = set("'\"\\$`{};%\n\r\t\0")


@given(st.text())
def test_no_text_breaks_out_of_its_literal(text: str) -> None:
    made = literal(text)
    assert made[0] == made[-1] == "'"
    inside = made[1:-1]
    assert not (set(inside) - {"\\"}) & SPECIAL
    assert inside.isascii()
    assert inside.replace("\\u", "").count("\\") == 0


def test_other_values() -> None:
    assert literal(None) == "NULL"
    assert literal(True) == "TRUE"
    assert literal(-3) == "-3"
    assert literal(date(2015, 5, 17)) == "DATE '2015-05-17'"
    noon = datetime(2015, 5, 17, 12, tzinfo=UTC)
    assert literal(noon) == "TIMESTAMP '2015-05-17 12:00:00.000000'"
    assert literal(math.pi) == f"CAST('{math.pi!r}' AS DOUBLE)"


@pytest.fixture
def hive(stack: Settings) -> Iterator[Hive]:
    with Hive(stack) as store:
        store.ensure_tables()
        yield store


@pytest.mark.stack
@pytest.mark.parametrize(
    "text",
    [
        "a'b\\c\"",
        "${env:HOME} ${spark.master}",
        "%s %(x)s",
        "\\u0041",
        "\n\r\t\0",
        "日本 😀",
        "; DROP TABLE logs --",
    ],
)
def test_text_comes_back_as_it_went(hive: Hive, text: str) -> None:
    assert hive.query("SELECT %(text)s", {"text": text}).scalar() == text


@pytest.mark.stack
def test_types_come_back(hive: Hive) -> None:
    noon = datetime(2015, 5, 17, 12, 30, 15, 250_000, tzinfo=UTC)
    found = hive.query(
        "SELECT %(none)s, %(t)s AS t, %(f)s, 7 %% 4, map('a', 1.5D)", {"none": None, "t": noon, "f": 0.1}
    )
    assert found.columns[1] == "t"
    assert found.rows == [(None, noon.replace(tzinfo=None), 0.1, 3, '{"a":1.5}')]


@pytest.mark.stack
def test_a_refused_statement_says_why_without_a_stack_trace(hive: Hive) -> None:
    with pytest.raises(SqlFailed, match="nowhere") as failure:
        hive.query("SELECT * FROM nowhere")
    assert "org.apache" not in str(failure.value)
    assert hive.query("SELECT 1").scalar() == 1


@pytest.mark.stack
def test_a_session_that_broke_is_opened_anew(hive: Hive) -> None:
    hive.query("SELECT 1")
    hive._connection._transport.close()
    assert hive.query("SELECT 2").scalar() == 2


def test_an_endpoint_that_is_away_is_named() -> None:
    away = Settings(instance="test", hive={"host": "127.0.0.1", "port": 9})
    with pytest.raises(SqlUnavailable, match=r"127\.0\.0\.1:9"):
        Hive(away).query("SELECT 1")
