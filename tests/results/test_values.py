"""Columns that are kept are those of the rows that pass, and each is made once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.results import values as module
from sluice.results.filters import Begins, SeriesFilter, begins_of
from sluice.results.query import Where
from sluice.results.values import StateColumns, columns_of
from sluice.state.series import START, dimension, one
from sluice.tasks.spec import ActiveTask
from tests.engine.samples import line, spec
from tests.results.stored import series_of

TASK = ActiveTask(1, 1, spec(metrics=["count"]))
BEGIN = datetime(2015, 5, 17, tzinfo=UTC)
LINES = st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["200", "404", "500"])), max_size=12)


def series(lines: list[tuple[int, str]]) -> pa.Table:
    """SERIES of lines of these minutes with these statuses."""
    made = [line(at=BEGIN + timedelta(minutes=minute), status=status) for minute, status in lines]
    return series_of(TASK, made).combine_chunks()


def only(*where: Where) -> SeriesFilter:
    return SeriesFilter(TASK, 0, 1 << 50, where)


@given(LINES, st.sampled_from(["", "2", "4", "x"]))
def test_what_is_kept_is_of_the_rows_that_pass(lines: list[tuple[int, str]], prefix: str) -> None:
    rows, condition = series(lines), Where(dimension="status", prefix=prefix)
    wanted = only(condition).keep(rows)
    kept = StateColumns()
    for _ in range(2):
        passing = kept.passing("block", rows, only(condition))
        for name in (START, dimension(0)):
            assert passing.stored(name).to_pylist() == wanted.column(name).to_pylist()
        (counts,) = passing.values("count")
        assert counts.to_pylist() == wanted.column("lines").to_pylist()
        assert same(passing.begins, begins_of(wanted.column(START).to_numpy()))


def same(one_: Begins, other: Begins) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one_, other, strict=True))


@given(st.lists(st.integers(-5, 5)).map(sorted), st.integers(-6, 6), st.integers(-6, 6))
def test_the_periods_in_the_time_are_those_that_start_in_it(
    starts: list[int], since: int, until: int
) -> None:
    begins = begins_of(np.array(starts, np.int64))
    inside = SeriesFilter(TASK, since, max(since, until), ()).within(begins)
    first, last = int(begins.rows[inside.start]), int(begins.rows[inside.stop])
    assert starts[first:last] == [start for start in starts if since <= start < until]
    assert begins.starts[inside].tolist() == sorted({s for s in starts if since <= s < until})


def test_each_column_is_made_once_for_a_condition_whatever_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, kept, made = series([(0, "200"), (1, "404"), (2, "200")]), StateColumns(), list[str]()

    def noting(table: pa.Table, name: str) -> module.Columns:
        made.append(name)
        return columns_of(table, name)

    monkeypatch.setattr(module, "columns_of", noting)
    ok = Where(dimension="status", values=("200",))
    first = kept.passing("block", rows, only(ok))
    again = kept.passing("block", rows, SeriesFilter(TASK, 5, 9, [ok]))
    assert again.values("count")[0] is first.values("count")[0]
    assert again.stored(START) is first.stored(START)
    assert len(first.stored(START)) == 2
    # Without conditions nothing is copied but the values, and those were made for the others, too.
    whole = kept.passing("block", rows, only())
    assert whole.values("count")[0].to_pylist() == [1, 1, 1]
    assert whole.stored(START).buffers()[1].address == one(rows.column(START)).buffers()[1].address
    assert made == ["count"]
    kept.passing("another", rows, only(ok)).values("count")
    assert made == ["count", "count"]
