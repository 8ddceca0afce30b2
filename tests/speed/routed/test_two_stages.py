"""Results never depend on the strategy: two stages count what one stage counts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.engine.plan import EnginePlan
from sluice.engine.schema import KEYS
from sluice.metrics import accumulator_columns, metric
from sluice.runtime.sections import Limits
from sluice.speed.routed import worker as worker_module
from sluice.speed.routed.topic_routing import TopicRouting
from sluice.tasks import ActiveTask
from sluice.tasks.grouping import GroupingSpec
from tests.engine.samples import BYTES, LIMITS, active, line, spec
from tests.engine.test_splits import NUMERIC, PATH, ROUNDED, SKETCHES, TEXTUAL
from tests.examples import examples
from tests.speed.routed.stages import ROUTED, Merged, by_version, one_stage, routes_of, two_stages

STATUS = {"name": "status", "extract": {"delimiter": " ", "index": 8}}
FIELD = {"delimiter": " ", "index": 6}
CLIENT = {"name": "client", "extract": {"delimiter": " ", "index": 0}}
TASKS = active(
    spec(name="numbers", measure=BYTES, metrics=NUMERIC),
    spec(name="texts", period="1h", timezone="Europe/Berlin", dimensions=[], measure=PATH, metrics=TEXTUAL),
    spec(
        name="pairs",
        period="10m",
        dimensions=[CLIENT, STATUS],
        where=[{"extract": FIELD, "filter": {"mode": "black", "values": ["/b"]}}],
        measure=BYTES,
        metrics=["count", "geometric_mean"],
    ),
    spec(name="lines", dimensions=[CLIENT], metrics=["count"]),
)
PLAN = EnginePlan.of(TASKS, LIMITS)

made = st.lists(
    st.builds(
        line,
        client=st.sampled_from(["10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.2", "é", "a_b%", ""]),
        at=st.integers(0, 7_200).map(
            lambda s: datetime(2026, 3, 29, 0, 30, tzinfo=UTC) + timedelta(seconds=s)
        ),
        path=st.sampled_from(["/", "/a", "/b", "/é", "-", "/_%", "/" + "x" * 2_000]),
        status=st.sampled_from(["200", "404"]),
        size=st.one_of(st.integers(0, 50).map(str), st.sampled_from(["-", "", "x", "0.5", "1e3"])),
    )
    | st.sampled_from([b"", b"no log line", b"\xff\xfe"]),
    max_size=60,
)


def rows(found: Merged) -> list[dict[str, Any]]:
    return sorted(found.partials.to_pylist(), key=lambda row: tuple(str(row[name]) for name in KEYS))


def columns_of(found: Merged) -> dict[str, pa.Array]:
    table = found.partials.sort_by([(name, "ascending") for name in KEYS])
    return {name: table.column(name).combine_chunks() for name in accumulator_columns()}


def geometric_means(found: Merged) -> Any:
    """A team's own metric: sums of logarithms, kept as JSON."""
    return metric("geometric_mean").results(columns_of(found)).values


def answers(found: Merged) -> dict[str, list[Any]]:
    """The answers of sketches; their bytes depend on the order of the lines."""
    columns = columns_of(found)
    return {
        "p50": metric("p50").results(columns).values.tolist(),
        "p99": metric("p99").results(columns).values.tolist(),
        "top3": metric("top3").results(columns).texts.to_pylist(),
    }


def same(one: Merged, other: Merged) -> None:
    """Equal bit for bit, except for last digits of sums of fractions and layouts of sketches."""
    assert one.failed == other.failed
    assert one.counts == other.counts
    assert sorted(map(str, one.days.to_pylist())) == sorted(map(str, other.days.to_pylist()))
    assert sorted(map(str, one.dead_letters.to_pylist())) == sorted(map(str, other.dead_letters.to_pylist()))
    mine, theirs = rows(one), rows(other)
    assert [[row[name] for name in KEYS] for row in mine] == [[row[name] for name in KEYS] for row in theirs]
    for a, b in zip(mine, theirs, strict=True):
        for name in accumulator_columns().keys() - SKETCHES - ROUNDED - {"user_geometric_mean"}:
            assert a[name] == b[name], name
        for name in ROUNDED:
            assert (a[name] is None) == (b[name] is None)
            if a[name] is not None:
                np.testing.assert_allclose(a[name], b[name], rtol=1e-9, atol=1e-9)
    if mine:
        np.testing.assert_equal(answers(one), answers(other))
        np.testing.assert_allclose(geometric_means(one), geometric_means(other), rtol=1e-9)


@examples(8)
@pytest.mark.parametrize("strategy", ROUTED)
@given(st.lists(made, min_size=1, max_size=3), st.integers(1, 5))
def test_any_strategy_counts_the_same(strategy: str, slices: list[list[bytes]], workers: int) -> None:
    routes = routes_of(by_version(TASKS), strategy, workers=workers, sources=len(slices))
    same(one_stage(PLAN, slices), two_stages(PLAN, routes, slices))


@examples(10)
@given(st.lists(made, min_size=2, max_size=2), st.lists(st.sampled_from([*ROUTED, "combine"]), min_size=4))
def test_each_task_of_a_batch_may_have_a_grouping_of_its_own(
    slices: list[list[bytes]], names: list[str]
) -> None:
    tasks = [
        ActiveTask(task.task_id, 1, task.spec.model_copy(update={"grouping": GroupingSpec(strategy=name)}))
        for task, name in zip(TASKS, names, strict=False)
    ]
    routes = TopicRouting(3).routes(by_version(tasks), sources=range(2))
    if routes is None:
        assert set(names[:4]) == {"combine"}
        return
    assert {TASKS[n].task_id for n in range(4) if names[n] != "combine"} == {t for t, _ in routes.tasks}
    same(one_stage(PLAN, slices), two_stages(PLAN, routes, slices))


LINES = [line(client=f"c{n % 7}", size=str(n), path=f"/{n % 11}") for n in range(500)]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ROUTED)
def test_routers_go_on_from_batch_to_batch_and_results_stay_the_same(strategy: str) -> None:
    """Three batches, with plans, summaries and times learnt between them."""
    groupings, default = TopicRouting(4), GroupingSpec(strategy=strategy)
    slices = [LINES[:250], LINES[250:]]
    for _ in range(3):
        routes = groupings.routes(by_version(TASKS), default, range(2))
        assert routes is not None
        found = two_stages(PLAN, routes, slices)
        same(one_stage(PLAN, slices), found)
        groupings.counted(found)
    assert {each["error"] for each in groupings.shown("logs", by_version(TASKS)).values()} == {None}


@pytest.mark.slow
def test_a_worker_that_aggregates_piece_by_piece_counts_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    routes = routes_of(by_version(TASKS), "key", workers=2, sources=4)
    slices = [LINES[n::4] for n in range(4)]
    whole = two_stages(PLAN, routes, slices)
    monkeypatch.setattr(worker_module, "AGGREGATED_TUPLES", 50)
    pieces = two_stages(PLAN, routes, slices)
    same(whole, pieces)
    spent = pieces.spent.to_pylist()
    assert sum(row["tuples"] for row in spent if row["worker"] >= 0) == sum(
        row["tuples"] for row in spent if row["worker"] < 0
    )


@pytest.mark.slow
def test_the_same_batch_is_routed_the_same_when_it_is_done_again() -> None:
    routes = routes_of(by_version(TASKS), "kg2", workers=5, sources=2)
    slices = [LINES[:250], LINES[250:]]
    first, again = (two_stages(PLAN, routes, slices).holders for _ in range(2))
    assert first.sort_by([(n, "ascending") for n in first.column_names]).equals(
        again.sort_by([(n, "ascending") for n in again.column_names])
    )


def test_a_limit_of_series_is_kept_at_the_workers_too() -> None:
    tasks = active(spec(name="clients", dimensions=[CLIENT], metrics=["count"]), spec(name="good"))
    plan = EnginePlan.of(tasks, Limits(series=50))
    slices = [[line(client=f"c{n}") for n in range(start, start + 40)] for start in (0, 40)]
    routes = routes_of(by_version(tasks), "key", workers=1, sources=2)
    found = two_stages(plan, routes, slices)
    assert "80 series in one period, 50 are allowed (limits.series)" in found.failed[1, 1]
    assert {row["task_id"] for row in found.partials.to_pylist()} == {2}


def test_nothing_is_sent_of_an_empty_batch() -> None:
    routes = routes_of(by_version(TASKS), "key", workers=2, sources=1)
    found = two_stages(PLAN, routes, [[]])
    assert (found.partials.num_rows, found.holders.num_rows) == (0, 0)
    assert isinstance(found.partials, pa.Table)
