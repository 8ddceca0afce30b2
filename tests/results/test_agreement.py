"""The rules by which results agree, on results that must agree and on some that must not."""

from __future__ import annotations

import json
import math
from collections import Counter

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.results import agreement
from sluice.results.agreement import JUDGED, distance, judge, ranking

NUMBERS = st.floats(-1e9, 1e9)
ERRORS = st.floats(0, 1e6)
Side = tuple[str | None, float | None, float]  # text, number, stated error


def one(metric: str, online: Side, offline: Side) -> dict[str, object]:
    frame = pd.DataFrame(
        {
            "metric": [metric],
            "online_text": pd.Series([online[0]], dtype=object),
            "online_error": [online[2]],
            "offline": [math.nan if offline[1] is None else offline[1]],
            "offline_text": pd.Series([offline[0]], dtype=object),
            "offline_error": [offline[2]],
        }
    )
    (row,) = judge(frame)[list(JUDGED)].to_dict("records")
    return row


def number(value: float, error: float = 0.0) -> Side:
    return repr(value), value, error


def listed(*counts: tuple[str, float], error: float = 0.0) -> Side:
    text = json.dumps([[value, count] for value, count in counts])
    return text, counts[0][1] if counts else None, error


def differs(metric: str, online: Side, offline: Side) -> bool:
    return bool(one(metric, online, offline)["differs"])


def quantile(value: float, error: float = 0.0) -> tuple[Side, Side]:
    """A quantile as both layers have it: offline, only lists have a text."""
    return number(value, error), (None, value, error)


def test_unique_is_the_same_number_however_large_its_error() -> None:
    assert not differs("unique", number(4096.5, 0.016), (None, 4096.5, 0.016))
    assert differs("unique", number(4097.0, 0.016), (None, 4096.0, 0.016))


def test_quantiles_agree_if_their_intervals_overlap() -> None:
    online, _ = quantile(10.0, 1.0)
    assert not differs("p95", online, quantile(11.9, 1.0)[1])
    assert not differs("p95", online, quantile(12.0, 1.0)[1])
    assert differs("p95", online, quantile(12.1, 1.0)[1])
    assert differs("p99.9", online, quantile(12.1, 1.0)[1])


def test_exact_quantiles_are_equal() -> None:
    assert not differs("p50", *quantile(10.0))
    assert differs("p50", quantile(10.0)[0], quantile(10.000000001)[1])
    assert not differs("p50", quantile(10.0)[0], quantile(10.1, 0.2)[1])


@pytest.mark.slow
@given(NUMBERS, ERRORS, ERRORS, st.floats(-1, 1), st.floats(-1, 1))
def test_intervals_around_the_same_truth_always_agree(
    truth: float, a: float, b: float, left: float, right: float
) -> None:
    assert not differs("p95", quantile(truth + left * a, a)[0], quantile(truth + right * b, b)[1])


@given(NUMBERS, ERRORS, ERRORS, st.floats(1e-6, 1e6))
def test_intervals_with_a_gap_between_never_agree(a: float, wide: float, wider: float, gap: float) -> None:
    b = a + wide + wider + gap + (abs(a) + wide + wider) * 1e-9
    assert differs("p95", quantile(a, wide)[0], quantile(b, wider)[1])


def test_exact_lists_are_the_same_lists() -> None:
    a = listed(("/a", 5), ("/b", 2))
    assert not differs("top3", a, a)
    assert differs("top3", a, listed(("/a", 5), ("/b", 3)))
    assert differs("top3", a, listed(("/a", 5)))
    assert differs("top3", listed(("/a", 2), ("/b", 2)), listed(("/b", 2), ("/a", 2)))


def test_lists_agree_within_both_errors() -> None:
    a = listed(("/a", 50), ("/b", 20), error=3)
    assert not differs("top2", a, listed(("/a", 54), ("/b", 18), error=2))
    assert differs("top2", a, listed(("/a", 56), ("/b", 20), error=2))
    # The least count in the other list is 20, so /c, which is not in it, has at most 20 there.
    assert not differs("top2", a, listed(("/a", 50), ("/c", 24), error=2))
    assert differs("top2", a, listed(("/a", 50), ("/c", 26), error=2))
    # A list that is not full has every value that was seen, so a missing value was counted 0 times.
    assert differs("top3", a, listed(("/a", 50), ("/b", 20), ("/c", 6), error=2))
    assert not differs("top3", a, listed(("/a", 50), ("/b", 20), ("/c", 5), error=2))


@st.composite
def estimates(draw: st.DrawFn) -> tuple[int, list[tuple[list[tuple[str, float]], int]]]:
    """Two lists of the most frequent values; each list's counts are within its stated error."""
    size = draw(st.integers(1, 6))
    truth = Counter(dict(enumerate(draw(st.lists(st.integers(1, 40), min_size=1, max_size=12)))))
    lists = []
    for _ in range(2):
        error = draw(st.integers(0, 5))
        wrong = {
            f"/{value}": float(count + draw(st.integers(-min(error, count), error)))
            for value, count in truth.items()
        }
        ordered = sorted(((v, c) for v, c in wrong.items() if c > 0), key=lambda item: (-item[1], item[0]))
        lists.append((ordered[:size], error))
    return size, lists


@given(estimates())
def test_lists_estimated_from_the_same_lines_always_agree(
    given_: tuple[int, list[tuple[list[tuple[str, float]], int]]],
) -> None:
    size, ((a, a_error), (b, b_error)) = given_
    assert distance(a, b, size) <= a_error + b_error
    assert distance(a, b, size) == distance(b, a, size)


@pytest.mark.slow
@given(estimates(), st.integers(0, 5), st.floats(1, 100))
def test_a_count_beyond_both_errors_always_differs(
    given_: tuple[int, list[tuple[list[tuple[str, float]], int]]], at: int, beyond: float
) -> None:
    size, ((a, a_error), _) = given_
    changed = list(a)
    if not changed:
        return
    at %= len(changed)
    changed[at] = (changed[at][0], changed[at][1] + 2 * a_error + beyond)
    changed.sort(key=lambda item: (-item[1], item[0]))
    assert differs(f"top{size}", listed(*changed, error=a_error), listed(*a, error=a_error))


@pytest.mark.parametrize(
    "text", [None, "7", "nonsense", '{"/a": 1}', '["/a", 1]', "[[1]]", '[["/a", "many"]]']
)
def test_a_text_that_is_no_list_differs_from_a_list(text: str | None) -> None:
    assert ranking(text) is None
    assert differs("top2", (text, None, 0.0), listed(("/a", 1)))
    assert differs("top2", listed(("/a", 1)), (text, 1.0, 0.0))


def test_a_list_is_validated_as_the_count_of_its_first_value() -> None:
    row = one("top2", listed(("/a", 7), ("/b", 2)), listed(("/a", 7), ("/b", 2)))
    assert row == {"online": 7.0, "difference": 0.0, "tolerance": 0.0, "differs": False}
    none = one("top2", listed(error=3), ("[]", 0.0, 2))  # no value was frequent enough
    assert none == {"online": 0.0, "difference": 0.0, "tolerance": 5.0, "differs": False}


def test_an_infinite_value_is_never_within_an_error() -> None:
    assert differs("p95", ("inf", None, 1.0), (None, 3.0, 1.0))
    assert not differs("p95", ("inf", None, 1.0), (None, math.inf, 1.0))


def test_metrics_that_are_gone_are_compared_exactly() -> None:
    assert not differs("no_such_metric", number(0.5), (None, 0.5, 0.0))
    assert differs("no_such_metric", number(0.5), (None, 0.5000000001, 0.0))
    assert not agreement.has_error("no_such_metric")


def test_missing_results_differ_whatever_the_errors() -> None:
    for name in ("count", "avg", "p95", "unique", "top2"):
        assert differs(name, (None, None, 9.0), (None, 3.0, 9.0))
        assert differs(name, ("3", 3.0, 9.0), (None, None, 9.0))
