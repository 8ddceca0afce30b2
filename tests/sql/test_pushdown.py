"""Conditions of a statement: what is understood never leaves out a row that passes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringStartsWith,
)

from sluice.results.query import MAX_CONDITIONS, MAX_TEXT, MAX_VALUES, Where
from sluice.sql.pushdown import ScanBounds, asked
from tests.examples import examples

BEGIN = datetime(2015, 5, 17, tzinfo=UTC)
FIRST = int(BEGIN.timestamp()) * 1000
#: Moments around whole milliseconds.
MOMENTS = st.integers(-2_500, 2_500).map(lambda us: BEGIN + timedelta(microseconds=us))
NAMES = st.sampled_from(["a", "ab", "b"])
TIMES = st.one_of(
    st.sampled_from(
        [EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual]
    ).flatmap(lambda kind: MOMENTS.map(lambda at: kind(("period",), at))),
    st.lists(MOMENTS, min_size=1, max_size=3).map(lambda own: In(("period",), own)),
)
COLUMNS = st.sampled_from(["task", "version", "metric", "path"])
VALUES = st.one_of(
    st.tuples(COLUMNS, NAMES).map(lambda own: EqualTo((own[0],), own[1])),
    st.tuples(COLUMNS, NAMES).map(lambda own: Not(EqualTo((own[0],), own[1]))),
    st.tuples(COLUMNS, st.lists(st.none() | NAMES, max_size=3)).map(lambda own: In((own[0],), own[1])),
    st.tuples(COLUMNS, NAMES).map(lambda own: StringStartsWith((own[0],), own[1])),
    st.tuples(COLUMNS, NAMES).map(lambda own: StringContains((own[0],), own[1])),
    COLUMNS.map(lambda name: IsNotNull((name,))),
)
Row = dict[str, Any]


def passes(each: Filter, row: Row) -> bool:
    """What SQL says of the row."""
    if isinstance(each, Not):
        return not passes(each.child, row)
    value = row[each.attribute[0]]
    if isinstance(each, IsNotNull):
        return value is not None
    told: dict[type[Filter], Any] = {
        EqualTo: lambda: value == each.value,
        EqualNullSafe: lambda: value == each.value,
        GreaterThan: lambda: value > each.value,
        GreaterThanOrEqual: lambda: value >= each.value,
        LessThan: lambda: value < each.value,
        LessThanOrEqual: lambda: value <= each.value,
        In: lambda: value in [v for v in each.value if v is not None],
        StringStartsWith: lambda: value.startswith(each.value),
        StringContains: lambda: each.value in value,
    }
    return bool(told[type(each)]())


def in_where(where: Where, row: Row) -> bool:
    value = row[where.dimension]
    return value in where.values if where.values is not None else value.startswith(where.prefix)


@given(
    filters=st.lists(TIMES | VALUES, max_size=6),
    ms=st.integers(-3, 3),
    names=st.fixed_dictionaries(dict.fromkeys(("task", "version", "metric", "path"), NAMES)),
)
@examples(300)
def test_a_row_that_passes_all_filters_is_read(filters: list[Filter], ms: int, names: Row) -> None:
    row = {"period": BEGIN + timedelta(milliseconds=ms), **names}
    found = asked(filters)
    kept = (
        found.since <= FIRST + ms < found.until
        and all(found.may_be(name, row[name]) for name in ("task", "version", "metric"))
        and all(in_where(each, row) for each in found.where(["path"]))
        and not found.nothing
    )
    assert kept or not all(passes(each, row) for each in filters)


@given(filters=st.lists(TIMES, max_size=4), ms=st.integers(-3, 3))
@examples(200)
def test_no_period_is_read_that_a_comparison_excludes(filters: list[Filter], ms: int) -> None:
    """Except between the values of IN, of which only the ends bound what is read."""
    found = asked(filters)
    row = {"period": BEGIN + timedelta(milliseconds=ms)}
    strict = [each for each in filters if not isinstance(each, In)]
    if found.since <= FIRST + ms < found.until:
        assert all(passes(each, row) for each in strict)


def test_conditions_on_a_task_s_dimensions_are_conditions_of_the_query() -> None:
    found = asked([EqualTo(("status",), "500"), StringStartsWith(("path",), "/img"), EqualTo(("task",), "a")])
    assert found.where(["path", "status"]) == (
        Where(dimension="status", values=("500",)),
        Where(dimension="path", prefix="/img"),
    )
    assert found.where([]) == ()


@pytest.mark.parametrize(
    "filters",
    [
        [In(("path",), [str(n) for n in range(MAX_VALUES + 1)])],
        [EqualTo(("path",), "x" * (MAX_TEXT + 1))],
        [StringStartsWith(("path",), "x" * (MAX_TEXT + 1))],
    ],
)
def test_what_a_query_cannot_carry_is_left_to_spark(filters: list[Filter]) -> None:
    assert asked(filters).where(["path"]) == ()


def test_a_query_gets_no_more_conditions_than_it_takes() -> None:
    found = asked([EqualTo(("path",), "a")] * (MAX_CONDITIONS + 1))
    assert len(found.where(["path"])) == MAX_CONDITIONS


def test_contradictions_read_nothing() -> None:
    assert asked([GreaterThan(("period",), BEGIN), LessThan(("period",), BEGIN)]).nothing
    assert asked([In(("task",), [None])]).nothing
    assert not ScanBounds().nothing
