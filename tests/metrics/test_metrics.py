"""The built-in metrics against plain Python, by group, however the values are split and merged."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.metrics import METRICS, UnknownMetric, accumulator_columns, accumulators, all_accumulators, metric
from sluice.metrics.accumulators import SPILL, sum_integers
from tests.examples import examples
from tests.metrics import states
from tests.metrics.states import Columns, numeric, values

missing = st.just(math.nan)
measures = st.one_of(
    missing,
    st.integers(-(2**53), 2**53).map(float),
    st.integers(-5, 5).map(float),
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12),
)
grouped = st.lists(st.tuples(st.integers(0, 3), measures), max_size=30)
GROUPS = 4
#: A sum is at most a unit in the last place from `fsum`; an average is rounded once more. All other metrics
#: are exact or have a tolerance of their own.
ROUNDED = {"sum": 2.0**-52, "avg": 2.0**-51}

OF_THE_MEASURES = {"sum": math.fsum, "min": min, "max": max, "stddev": lambda v: float(statistics.pstdev(v))}


def added(rows: list[tuple[int, float]]) -> Columns:
    """All built-in accumulators of the rows, in `GROUPS` groups."""
    batch = numeric([g for g, _ in rows], [v for _, v in rows], GROUPS)
    return states.added(batch, *METRICS, "p50", "top10")


def merged(*parts: Columns) -> Columns:
    return states.merged(GROUPS, *parts)


def expected(rows: list[tuple[int, float]], name: str) -> list[float | int | None]:
    result: list[float | int | None] = []
    for group in range(GROUPS):
        found = [v for g, v in rows if g == group]
        there = [v for v in found if not math.isnan(v)]
        if name in ("count", "missing"):
            result.append(len(found) if name == "count" else len(found) - len(there))
        elif name == "unique":
            result.append(len(set(map(repr, there))))
        elif not there:
            result.append(None)
        elif name == "avg":
            result.append(math.fsum(there) / len(there))
        else:
            result.append(OF_THE_MEASURES[name](there))
    return result


@pytest.mark.parametrize("name", METRICS)
@examples(20)
@given(rows=grouped)
def test_against_plain_python(name: str, rows: list[tuple[int, float]]) -> None:
    for found, value in zip(values(added(rows), name), expected(rows, name), strict=True):
        assert (found is None) == (value is None)
        if found is not None and value is not None:
            scale = max((abs(v) for _, v in rows if not math.isnan(v)), default=0.0)
            slack = METRICS[name].tolerance * scale * len(rows)  # the mean of stddev may cancel
            nearly = ROUNDED.get(name, METRICS[name].tolerance)
            assert math.isclose(found, value, rel_tol=nearly, abs_tol=slack)


@pytest.mark.parametrize("name", METRICS)
@examples(15)
@given(parts=st.lists(grouped, min_size=1, max_size=4))
def test_merged_parts_are_the_whole(name: str, parts: list[list[tuple[int, float]]]) -> None:
    rows = [row for part in parts for row in part]
    scale = max((abs(v) for _, v in rows if not math.isnan(v)), default=0.0)
    slack = METRICS[name].tolerance * scale * max(len(rows), 1)
    whole = values(added(rows), name)
    states = [added(part) for part in parts]
    left = states[0]
    for state in states[1:]:
        left = merged(left, state)
    for other in (merged(*states), merged(*reversed(states)), left, merged(left, added([]))):
        for a, b in zip(values(other, name), whole, strict=True):
            assert a == b or (a is not None and b is not None and math.isclose(a, b, abs_tol=slack)), name


@examples(60)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-(2**62) + 1, 2**62 - 1)), max_size=20))
def test_integer_sums_are_exact_or_spill_but_never_wrong(rows: list[tuple[int, int]]) -> None:
    groups = np.array([g for g, _ in rows], np.int64)
    total, floats, owners = sum_integers(np.array([v for _, v in rows], np.int64), groups, 3)
    for group in range(3):
        exact = sum(v for g, v in rows if g == group)
        spilled = [int(each) for each in floats[owners == group]]
        if -SPILL <= exact < SPILL:
            assert (int(total[group]), spilled) == (exact, [])
        else:
            assert (total[group], sum(spilled)) == (0, exact)


def test_a_sum_that_outgrows_an_integer_goes_on_as_a_float() -> None:
    state = added([(0, float(2**43))] * 2)
    for _ in range(25):
        state = merged(state, state)
    assert values(state, "sum")[0] == float(2**69)
    assert values(state, "count")[0] == 2**26
    state = merged(state, added([(0, 5.0)]))
    assert state["isum"][0].as_py() == 5
    assert values(state, "sum")[0] == float(2**69)


def test_a_sum_of_integers_is_an_exact_integer() -> None:
    large = 2**43 - 1
    assert values(added([(0, float(large))] * 3000 + [(0, 1.0)]), "sum")[0] == 3000 * large + 1


def test_one_fraction_makes_the_sum_a_float() -> None:
    found = METRICS["sum"].results(added([(0, 1.0), (0, 0.5), (1, 3.0)]))
    assert found.exact is not None
    assert found.exact.tolist()[:2] == [False, True]
    assert found.values.tolist()[:2] == [1.5, 3.0]


def test_what_metrics_need() -> None:
    assert [a.name for a in accumulators(["count"])] == ["lines"]
    assert [a.name for a in accumulators(["max"])] == ["lines", "max"]
    assert {a.name for a in accumulators(["avg"])} == {"lines", "measured", "sum"}


def test_quantiles_share_a_column_and_so_do_top_k() -> None:
    assert [a.name for a in accumulators(["p50", "p99", "p99.9"])] == ["lines", "kll"]
    assert [a.name for a in accumulators(["top1", "top100", "unique"])] == ["lines", "hll", "heavy"]


@pytest.mark.parametrize(
    "name", ["p50", "p99", "p99.9", "p0.001", "p99.999", "p5", "top1", "top10", "top100"]
)
def test_metrics_by_a_number(name: str) -> None:
    assert metric(name).name == name
    assert metric(name) is metric(name)
    assert metric(name).sketched


@pytest.mark.parametrize(
    "name",
    [
        *(
            "p0",
            "p100",
            "p050",
            "p99.90",
            "p99.",
            "p.5",
            "p-5",
            "p1e1",
            "p99.9999",
            "p0.0",
            "p",
            "P50",
            "p\u0665",
        ),
        *(
            "top0",
            "top101",
            "top010",
            "top",
            "top-1",
            "top1.5",
            "Top5",
            "median",
            "",
            "kll",
            "count ",
            "p50\n",
        ),
    ],
)
def test_an_unknown_metric_is_refused_with_what_there_is(name: str) -> None:
    with pytest.raises(UnknownMetric, match=r"is not known: use one of count, sum.*stddev.*p99\.9.*top10"):
        metric(name)


def test_what_each_metric_is_computed_from() -> None:
    assert {name for name, each in METRICS.items() if each.measure == "none"} == {"count"}
    assert {name for name, each in METRICS.items() if each.measure == "any"} == {"missing", "unique"}
    assert (metric("p50").measure, metric("top3").measure) == ("number", "any")


def test_no_column_belongs_to_two_accumulators() -> None:
    assert len(accumulator_columns()) == sum(len(a.columns) for a in all_accumulators().values())


def test_a_metric_of_numbers_says_what_a_text_lacks() -> None:
    batch = states.textual([0], ["x"], 1)
    for name in ("sum", "min", "max", "stddev", "p50"):
        with pytest.raises(ValueError, match="needs a measure of numbers"):
            states.added(batch, name)
