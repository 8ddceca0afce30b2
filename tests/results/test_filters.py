"""Conditions are tried once for equal values, and masks choose the same rows as Python does."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.results import filters
from sluice.results.filters import ChosenRows, SeriesFilter
from sluice.results.query import Where
from tests.engine.samples import active, spec
from tests.state.test_finals import series

(TASK,) = active(spec())


@given(st.lists(st.tuples(st.integers(), st.booleans()).map(lambda t: (t[0] % 100, t[1]))), st.data())
def test_the_same_rows_of_tables_columns_and_arrays_are_chosen(
    rows: list[tuple[int, bool]], data: st.DataObject
) -> None:
    begin, end = sorted(data.draw(st.tuples(*[st.integers(0, len(rows))] * 2)))
    masked = data.draw(st.booleans())
    mask = np.array([passes for _, passes in rows[begin:end]], bool) if masked else None
    chosen = ChosenRows(begin, end, mask)
    wanted = [value for value, passes in rows[begin:end] if passes or not masked]
    values = pa.array([value for value, _ in rows], pa.int64())
    assert chosen.of(pa.table({"v": values})).column("v").to_pylist() == wanted
    assert chosen.numbers(values.to_numpy()).tolist() == wanted


def test_a_condition_is_tried_once_for_equal_values(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[list[str]] = []
    plain = filters.passing

    def passing(values: pa.Array, condition: Where) -> pa.Array:
        tried.append(values.to_pylist())
        return plain(values, condition)

    monkeypatch.setattr(filters, "passing", passing)
    only = SeriesFilter(TASK, 0, 10, [Where(dimension="status", prefix="2")])
    parts = [series(own) for own in (["200", "404"], ["200", "404"], ["404", "500"], ["200"])]
    found = [only.choose(part, only.mask(part)) for part in parts]
    assert tried == [["200", "404"], ["404", "500"], ["200"]]
    assert [None if each.passing is None else each.passing.tolist() for each in found] == [
        [True, False],
        [True, False],
        None,
        None,
    ]
    assert [each.end - each.begin for each in found] == [2, 2, 0, 1]
