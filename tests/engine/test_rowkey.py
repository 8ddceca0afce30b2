from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.engine.rowkey import (
    BadRowKey,
    RowKey,
    encode_column,
    escape,
    escape_column,
    prefix,
    series_key,
    series_values,
    split_keys,
    unescape,
    unescape_column,
)
from tests.examples import examples

#: Characters that a log may hold, above all the separators and the escapes themselves.
values = st.text(st.sampled_from("_%25Fv/ \x00\n\té\u200b\U0001d11e<'aZ"), max_size=12)
names = st.from_regex(r"[a-z][a-z0-9_-]{0,5}", fullmatch=True)
keys = st.builds(
    RowKey,
    task_id=st.integers(1, 10**6),
    version=st.integers(1, 99),
    dimensions=st.lists(st.tuples(names, values), max_size=4).map(tuple),
    metric=st.sampled_from(["count", "avg", "top_10"]),
    period_start=st.integers(-(2**40), 2**48),
)


@examples(30)
@given(keys)
def test_decoding_gives_back_what_was_encoded(key: RowKey) -> None:
    assert RowKey.decode(key.encode()) == key


@examples(30)
@given(keys, keys)
def test_no_two_results_share_a_row(one: RowKey, other: RowKey) -> None:
    assert (one.encode() == other.encode()) == (one == other)


@examples(30)
@given(st.lists(values, max_size=4), st.lists(values, max_size=4))
def test_no_two_series_of_a_task_share_a_key(one: list[str], other: list[str]) -> None:
    assert series_values(series_key(one), len(one)) == one
    if len(one) == len(other):
        assert (series_key(one) == series_key(other)) == (one == other)


@examples(50)
@given(st.lists(values, max_size=8))
def test_columns_are_escaped_like_single_values(found: list[str]) -> None:
    escaped = escape_column(pa.array(found, pa.string()))
    assert escaped.to_pylist() == [escape(v) for v in found]
    assert unescape_column(escaped).to_pylist() == found == [unescape(escape(v)) for v in found]


@examples(50)
@given(st.integers(0, 3).flatmap(lambda n: st.lists(st.tuples(*[values] * n), min_size=1, max_size=5)))
def test_a_column_of_rows_equals_the_single_rows(series: list[tuple[str, ...]]) -> None:
    labels = ["host", "a_b", "c"][: len(series[0])]
    starts = [60_000 * n for n in range(len(series))]
    found = pa.array([series_key(s) for s in series], pa.string())
    rows = encode_column("3v2", labels, found, "count", pa.array(starts, pa.int64()))
    expected = [
        RowKey(3, 2, tuple(zip(labels, s, strict=True)), "count", start).encode()
        for s, start in zip(series, starts, strict=True)
    ]
    assert rows.type == pa.binary()
    assert rows.to_pylist() == expected
    parts = [unescape_column(c).to_pylist() for c in split_keys(found, len(labels))]
    assert [tuple(p) for p in zip(*parts, strict=True)] == (series if labels else [])


def test_the_layout_is_that_of_paper_002() -> None:
    key = RowKey(3, 2, (("status", "200"), ("path", "/a_b%")), "count", 1431857100000)
    assert key.encode() == b"3v2_status_200_path_/a%5Fb%25_count_1431857100000"
    assert key.encode().startswith(prefix("3v2", ["status"], ["200"]))
    assert not RowKey(3, 21, (), "count", 0).encode().startswith(prefix("3v2"))


@pytest.mark.parametrize(
    "row", [b"", b"x", b"3v2", b"3v2_a_count_1", b"3_count_1", b"3v2_count_now", b"\xff_"]
)
def test_an_invalid_row_is_refused(row: bytes) -> None:
    with pytest.raises(BadRowKey, match="no row of results"):
        RowKey.decode(row)


def test_a_key_of_another_task_version_is_refused() -> None:
    with pytest.raises(BadRowKey, match="2 values"):
        split_keys(pa.array(["a_b", "a"]), 2)
