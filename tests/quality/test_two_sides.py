"""The two sides that Great Expectations tests: they agree where the comparison says so, by another way."""

from __future__ import annotations

import json
import math

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.engine.rowkey import RowKey
from sluice.quality.two_sides import EQUAL, OVERLAP, two_sides
from sluice.results.compare import OFFLINE_RESULTS, ONLINE_RESULTS, compare

MINUTE = 1431857100000  # 2015-05-17T10:05:00Z
Stored = tuple[object, float | None]  # a value and its stated error


def frame(metric: str, online: Stored | None, offline: Stored | None, path: str = "/a_b") -> pd.DataFrame:
    """The comparison of one result; a side that is None has none."""
    row = RowKey(7, 2, (("path", path),), metric, MINUTE).encode()
    ours, theirs = ONLINE_RESULTS.empty_table(), OFFLINE_RESULTS.empty_table()
    if online is not None:
        ours = pa.table([[row], [json.dumps(online[0])], [online[1]]], schema=ONLINE_RESULTS)
    if offline is not None:
        value, error = offline
        text = json.dumps(value) if isinstance(value, list) else None
        number = (
            value[0][1] if isinstance(value, list) and value else 0.0 if isinstance(value, list) else value
        )
        theirs = pa.table([[row], [metric], [number], [text], [error]], schema=OFFLINE_RESULTS)
    return compare("hits (7v2)", ours, theirs).frame


def holds(sides: pd.DataFrame) -> bool:
    """Whether all that is expected of the rows holds, tested here with plain comparisons."""
    for row in sides.to_dict("records"):
        if pd.isna(row["online"]) or pd.isna(row["offline"]):
            return False
        if row["agree_if"] == EQUAL and row["online"] != row["offline"]:
            return False
        if row["agree_if"] == OVERLAP and not (
            row["online_high"] >= row["offline_low"] and row["offline_high"] >= row["online_low"]
        ):
            return False
    return True


def both_agree(metric: str, online: Stored | None, offline: Stored | None) -> bool:
    found = frame(metric, online, offline)
    verdict = holds(two_sides(found))
    assert verdict == (not found["differs"].any())
    return verdict


COUNTS = st.integers(0, 40)
ERRORS = st.one_of(st.just(0), st.integers(0, 10))
LISTS = st.dictionaries(st.sampled_from("abcdef"), COUNTS, max_size=3).map(
    lambda counts: [[value, counts[value]] for value in sorted(counts, key=lambda v: (-counts[v], v))]
)
VALUES = st.one_of(st.integers(-1000, 1000), st.floats(-1e9, 1e9))


@pytest.mark.slow
@given(
    st.sampled_from(["count", "max", "unique", "stddev", "geometric_mean", "p95"]),
    st.one_of(st.none(), st.tuples(VALUES, ERRORS)),
    st.one_of(st.none(), st.tuples(VALUES.map(float), ERRORS)),
)
def test_numbers_agree_as_in_the_comparison(
    metric: str, online: Stored | None, offline: Stored | None
) -> None:
    both_agree(metric, online, offline)


@pytest.mark.slow
@given(
    st.one_of(st.none(), st.tuples(LISTS, ERRORS)),
    st.one_of(st.none(), st.tuples(LISTS, ERRORS)),
)
def test_lists_agree_as_in_the_comparison(online: Stored | None, offline: Stored | None) -> None:
    both_agree("top3", online, offline)


@pytest.mark.parametrize(
    ("metric", "online", "offline", "agree"),
    [
        ("count", (3, None), (3.0, None), True),
        ("count", (3, None), (4.0, None), False),
        ("count", None, (4.0, None), False),
        ("max", (math.inf, None), (math.inf, None), True),
        ("stddev", (math.inf, None), (1.0, None), False),
        ("stddev", (0.1 + 0.2, None), (0.3, None), True),
        ("stddev", (0.3000001, None), (0.3, None), False),
        ("p95", (10.0, 1.5), (13.5, 2.0), True),
        ("p95", (10.0, 1.5), (13.6, 2.0), False),
        ("top2", ([["/a", 9], ["/b", 4]], 1.0), ([["/a", 8], ["/c", 5]], 1.0), True),
        ("top2", ([["/a", 9], ["/b", 4]], 1.0), ([["/a", 8], ["/c", 7]], 1.0), False),
        ("top2", ([["/a", 9], ["/b", 4]], 0.0), ([["/a", 9], ["/c", 4]], 0.0), False),
    ],
)
def test_each_kind_of_metric_has_its_rule(
    metric: str, online: Stored | None, offline: Stored | None, agree: bool
) -> None:
    assert both_agree(metric, online, offline) == agree


def test_a_list_that_is_not_exact_has_a_row_for_each_value() -> None:
    sides = two_sides(frame("top2", ([["/a", 9], ["/b", 4]], 1.0), ([["/a", 8], ["/c", 5]], 2.0)))
    shown = sides[["item", "online", "offline", "online_low", "online_high", "offline_low", "offline_high"]]
    assert shown.to_numpy().tolist() == [
        ["/a", 9.0, 8.0, 8.0, 10.0, 6.0, 10.0],
        ["/b", 4.0, "not named: at most 5", 3.0, 5.0, 0.0, 7.0],
        ["/c", "not named: at most 4", 5.0, 0.0, 5.0, 3.0, 7.0],
    ]


def test_only_results_that_are_not_the_same_have_their_keys_spelled_out() -> None:
    both = pd.concat(
        [frame("count", (3, None), (3.0, None)), frame("count", (3, None), (4.0, None), "/other")],
        ignore_index=True,
    )
    assert two_sides(both)[["period", "series"]].to_numpy().tolist() == [
        ["", ""],
        ["2015-05-17T10:05:00Z", "path=/other"],
    ]


def test_nothing_has_no_rows() -> None:
    nothing = compare("t", ONLINE_RESULTS.empty_table(), OFFLINE_RESULTS.empty_table()).frame
    assert len(two_sides(nothing)) == 0
