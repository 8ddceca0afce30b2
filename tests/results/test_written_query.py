"""What people write to ask for results: conditions, top lists, roll-ups, orders and moments."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sluice.results.query import Order, Query, Top, Where
from sluice.results.written_query import BadMoment, BadText, WrittenQuery, moment, query


def asked_for(**options: Any) -> Query:
    return query("hits", given=WrittenQuery(**options))


def test_texts_make_a_query() -> None:
    asked = asked_for(
        where=["status=500", "path^=/img/=", "status=404", r"path~=\.png$"],
        top="10:sum",
        rollup=["client,1d", "path"],
        sort=["sum:desc", "period"],
        limit=3,
    )
    assert asked.where == (
        Where(dimension="status", values=("500", "404")),
        Where(dimension="path", prefix="/img/="),
        Where(dimension="path", pattern=r"\.png$"),
    )
    assert (asked.top, asked.dimensions, asked.period) == (
        Top(n=10, metric="sum"),
        ("client", "path"),
        "1d",
    )
    assert asked.order == (Order(column="sum", descending=True), Order(column="period"))
    plain, total = asked_for(top="3"), asked_for(rollup=["total,all"])
    assert (plain.top, plain.dimensions, plain.period) == (Top(n=3, metric="count"), None, None)
    assert (total.dimensions, total.period) == ((), "all")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"where": ["status"]}, "where 'status': write DIMENSION=VALUE"),
        ({"top": "many"}, "top 'many': write how many"),
        ({"rollup": ["1h,1d"]}, "rollup 1h,1d: name one period"),
        ({"rollup": ["total,path"]}, "rollup total,path: total keeps no dimension"),
        ({"sort": ["count:down"]}, "sort 'count:down': write a column"),
    ],
)
def test_a_text_that_cannot_be_read_says_how_to_write_it(options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadText, match=message):
        asked_for(**options)


@given(where=st.lists(st.text(max_size=8), max_size=3), top=st.text(max_size=8), words=st.text(max_size=8))
def test_any_text_is_a_query_or_refused(where: list[str], top: str, words: str) -> None:
    for options in ({"where": where}, {"top": top}, {"rollup": [words]}, {"sort": [words]}):
        with suppress(BadText, ValidationError):
            assert asked_for(**options).tasks == ("hits",)


@pytest.mark.parametrize("text", ["noon", "", "1" * 400, "2015-05-17T10:00:00 02:00", "9999-99-99", "\0"])
def test_a_moment_that_is_none_is_refused_in_a_line(text: str) -> None:
    with pytest.raises(BadMoment) as refused:
        moment(text)
    assert "is no time: write a day" in str(refused.value)
    assert len(str(refused.value)) < 300
