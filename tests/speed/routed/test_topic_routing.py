"""The driver's memory: what it learns from a batch, and how that routes the next one."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sluice.engine.plan import EnginePlan
from sluice.engine.schema import partials_schema
from sluice.engine.set_aside import Version
from sluice.engine.spent import AT_SOURCE, Spent, to_table
from sluice.engine.tuples import hash_keys
from sluice.engine.wire import HOLDERS
from sluice.grouping.auto import LEAST_TUPLES, PLANNED
from sluice.grouping.planned import PlannedRouter
from sluice.runtime.sections import Limits
from sluice.speed.partition_pass import Gathered
from sluice.speed.routed import task as task_module
from sluice.speed.routed.batches import TaskBatch, by_task
from sluice.speed.routed.learning import learnt
from sluice.speed.routed.report import GroupingReport
from sluice.speed.routed.routes import Routes
from sluice.speed.routed.topic_routing import TopicRouting
from sluice.tasks import ActiveTask
from sluice.tasks.grouping import GroupingSpec
from tests.engine.samples import BYTES, active, line, spec
from tests.own_time import own_time
from tests.speed.routed.stages import Merged, by_version, one_stage, two_stages

pytestmark = pytest.mark.slow

CLIENT = {"name": "client", "extract": {"delimiter": " ", "index": 0}}
ONE = (1, 1)
#: A client that sends half of all lines, and two slices of the batch.
LINES = [line(client="hot" if n % 2 else f"c{n}", size=str(n)) for n in range(400)]
SLICES = [LINES[:300], LINES[300:]]


def tasks(grouping: Any = None, **fields: Any) -> dict[Version, ActiveTask]:
    return by_version(active(spec(dimensions=[CLIENT], grouping=grouping, **fields)))


def batch(groupings: TopicRouting, there: Mapping[Version, ActiveTask]) -> tuple[Merged, Routes | None]:
    """Count the lines with the current grouping of these tasks."""
    routes = groupings.routes(there, sources=range(len(SLICES)))
    plan = EnginePlan.of(there.values(), Limits())
    found = one_stage(plan, SLICES) if routes is None else two_stages(plan, routes, SLICES)
    groupings.counted(found)
    return found, routes


@pytest.fixture
def alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """All workers are equally fast, whatever else this machine does meanwhile: loads are tuples."""
    monkeypatch.setattr(task_module.WorkerTimes, "add", lambda *_: None)


def report(groupings: TopicRouting, there: Mapping[Version, ActiveTask]) -> GroupingReport:
    (document,) = groupings.shown("logs", there).values()
    return GroupingReport.model_validate(document)


def test_a_tasks_grouping_wins_over_its_topics_and_auto_is_the_default() -> None:
    named, silent = tasks("kg2"), tasks()
    topic = GroupingSpec(strategy="pkg")
    assert report_of(named, topic).strategy == "kg2"
    assert report_of(silent, topic).strategy == "pkg"
    assert report_of(tasks("auto"), topic).asked == "auto"
    assert report_of(silent, None).asked == "auto"
    assert TopicRouting(2).routes(silent, None, range(2)) is None


def report_of(there: Mapping[Version, ActiveTask], default: GroupingSpec | None) -> GroupingReport:
    groupings = TopicRouting(2)
    groupings.routes(there, default, range(2))
    return report(groupings, there)


def test_parameters_reach_the_strategy() -> None:
    there = tasks({"strategy": "kg2", "support": 0.1, "error": 0.01})
    routes = TopicRouting(3).routes(there, None, range(2))
    assert routes is not None
    assert routes.workers == 3
    assert (routes.tasks[ONE].strategy.support, routes.tasks[ONE].seed) == (0.1, 1)  # type: ignore[attr-defined]


def test_another_grouping_takes_effect_with_the_next_batch_and_counts_go_on() -> None:
    groupings = TopicRouting(3)
    whole = one_stage(EnginePlan.of(tasks().values(), Limits()), SLICES).partials
    names = []
    for grouping in ("key", {"strategy": "planned", "buckets": 64}, "combine", "shuffle", None):
        there = tasks(grouping)
        found, _ = batch(groupings, there)
        assert found.partials.sort_by("key").equals(whole.sort_by("key"))
        names.append(report(groupings, there).strategy)
    assert names == ["key", "planned", "combine", "shuffle", "combine"]
    assert report(groupings, tasks()).hot[0].error == 0  # what is known about keys survives


def test_hot_keys_are_named_with_their_workers_and_shares() -> None:
    groupings, there = TopicRouting(3), tasks("key")
    for _ in range(2):
        batch(groupings, there)
    hot = report(groupings, there).hot
    assert len(hot) == 10
    assert (hot[0].key, hot[0].share, hot[0].error) == (("hot",), pytest.approx(0.5), 0.0)
    assert all(len(each.workers) == 1 for each in hot)  # key grouping: one candidate
    batch(groupings, tasks("shuffle"))
    assert report(groupings, tasks("shuffle")).hot[0].workers == (0, 1, 2)
    batch(groupings, tasks("combine"))
    assert report(groupings, tasks("combine")).hot[0].workers == ()


def test_the_plan_that_is_shown_is_that_of_the_next_batch(alike: None) -> None:
    groupings, there = TopicRouting(3), tasks({"strategy": "planned", "buckets": 64})
    assert report_of(tasks("key"), None).plan is None
    batch(groupings, there)
    plan = report(groupings, there).plan
    assert plan is not None
    assert plan.expected == len(LINES)
    assert (plan.split, plan.buckets) == (1, 64)  # one client has more than a worker's third
    assert plan.split <= plan.listed


def test_a_key_of_several_dimensions_is_shown_as_its_values() -> None:
    path = {"name": "path", "extract": {"delimiter": " ", "index": 6}}
    lines = [line(client="a_%", path="/" + "x" * 900)]
    there = by_version(active(spec(dimensions=[CLIENT, path])))
    groupings = TopicRouting(2)
    groupings.routes(there, None, [0])
    groupings.counted(one_stage(EnginePlan.of(there.values(), Limits()), [lines]))
    assert report(groupings, there).hot[0].key == ("a_%", "/" + "x" * 199)


def test_load_and_imbalance_are_those_of_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000.0
    own_time(monkeypatch, task_module, monotonic=lambda: now)
    groupings, there = TopicRouting(4), tasks("shuffle")
    batch(groupings, there)
    shown = report(groupings, there)
    assert [each.tuples for each in shown.load] == [100] * 4
    assert sum(each.seconds for each in shown.load) > 0
    balance = shown.imbalance
    assert balance is not None
    assert balance.last == balance.worst == pytest.approx(balance.hour)
    batch(groupings, tasks("combine"))
    assert report(groupings, tasks("combine")).imbalance is None


def spent(*rows: tuple[int, int, int, float, int]) -> pa.Table:
    return to_table(Spent(*ONE, *row) for row in rows)


def gathered(lines: dict[str, int], spent_: pa.Table) -> Gathered:
    """A batch that counted these lines, by key."""
    rows = [
        {"task_id": 1, "version": 1, "period_start": 0, "key": key, "lines": count}
        for key, count in lines.items()
    ]
    keys = learnt(pa.Table.from_pylist(rows, schema=partials_schema()), {ONE})
    nothing = one_stage(EnginePlan.of([], Limits()), [[]])
    return replace(nothing, learnt=keys, spent=spent_)


def test_the_hour_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    own_time(monkeypatch, task_module, monotonic=lambda: now)
    groupings, there = TopicRouting(2), tasks("key")
    groupings.routes(there, None, [0])
    uneven = gathered({"a": 40}, spent((0, AT_SOURCE, 40, 0.0, 1), (AT_SOURCE, 0, 40, 0.0, 0)))
    even = gathered(
        {"a": 40},
        spent((0, AT_SOURCE, 20, 0.0, 1), (1, AT_SOURCE, 20, 0.0, 1), (AT_SOURCE, 0, 40, 0.0, 0)),
    )
    groupings.counted(uneven)
    now = 1_800.0
    groupings.counted(even)
    balance = report(groupings, there).imbalance
    assert balance is not None
    assert (balance.last, balance.hour, balance.worst) == (0.0, pytest.approx(0.5), 1.0)
    now = 3_700.0
    groupings.counted(even)
    balance = report(groupings, there).imbalance
    assert balance is not None
    assert (balance.hour, balance.worst) == (0.0, 0.0)


def test_figures_are_read_from_what_a_batch_counted() -> None:
    there = tasks(measure=BYTES, metrics=["count", "unique"])
    plan = EnginePlan.of(there.values(), Limits())
    combined = by_task(one_stage(plan, SLICES))[ONE]
    routed = by_task(two_stages(plan, routes_by_key(there), SLICES))[ONE]
    clients = {"hot", *(f"c{n}" for n in range(0, 400, 2))}
    for found in (combined, routed):
        assert (found.tuples, found.groups, found.top) == (400, len(clients), 0.5)
        assert found.widest == 0.75
        assert found.cost > 0
        # Each of 400 different sizes is 8 bytes in a set, and each of 201 series has a count.
        assert found.state == pytest.approx((400 * 8 + 201 * 8) / 201)
    assert combined.rows == 202  # "hot" comes from both slices
    assert routed.rows == 201
    assert combined.by_worker(3)[0].tolist() == [0, 0, 0]
    assert routed.by_worker(3)[0].sum() == 400


def routes_by_key(there: Mapping[Version, ActiveTask]) -> Routes:
    routes = TopicRouting(3).routes(there, GroupingSpec(strategy="key"), range(2))
    assert routes is not None
    return routes


def heavy(sources: tuple[int, int] = (0, 1)) -> Gathered:
    """A batch of 100,000 expensive tuples: nearly all in one source, half of them of one key."""
    lines = {"hot": 50_000, **{f"c{n}": 50 for n in range(1_000)}}
    rows = spent((AT_SOURCE, sources[0], 90_000, 4.5, 1_001), (AT_SOURCE, sources[1], 10_000, 0.5, 1_001))
    return gathered(lines, rows)


def test_auto_goes_over_to_planned_and_begins_with_a_plan() -> None:
    groupings, there = TopicRouting(8), tasks()
    for number in range(3):
        assert groupings.routes(there, None, range(2)) is None, number
        groupings.counted(heavy())
    shown = report(groupings, there)
    assert (shown.asked, shown.strategy) == ("auto", PLANNED)
    assert shown.decision is not None
    assert shown.decision.figures is not None
    assert (shown.decision.figures.tuples, shown.decision.figures.widest) == (100_000, 0.9)
    routes = groupings.routes(there, None, range(2))
    assert routes is not None
    router = routes.tasks[ONE].router(1)
    assert isinstance(router, PlannedRouter)
    assert hash_keys(pa.array(["hot"]))[0] in router.plan.keys  # the plan knows it before it comes
    assert router.plan.expected == 100_000
    assert router.state.expected == 50_000


def test_auto_spares_a_small_batch_the_second_stage_and_keeps_its_plan() -> None:
    groupings, there = TopicRouting(8), tasks()
    for _ in range(3):
        groupings.routes(there, None, range(2))
        groupings.counted(heavy())
    assert groupings.routes(there, None, range(2), lines=LEAST_TUPLES - 1) is None
    groupings.counted(gathered({"c1": 5}, spent((AT_SOURCE, 0, 5, 0.001, 1))))
    assert report(groupings, there).imbalance is None
    routes = groupings.routes(there, None, range(2), lines=LEAST_TUPLES)
    assert routes is not None
    router = routes.tasks[ONE].router(0)
    assert isinstance(router, PlannedRouter)
    assert router.plan.expected == 100_000  # five lines say nothing about the next batch
    named = tasks("planned")
    assert groupings.routes(named, None, range(2), lines=1) is not None


def test_a_slow_worker_gets_a_smaller_share_of_the_next_plan() -> None:
    groupings, there = TopicRouting(2), tasks("planned")
    groupings.routes(there, None, [0])
    rows = spent(
        (0, AT_SOURCE, 50_000, 1.0, 1), (1, AT_SOURCE, 50_000, 3.0, 1), (AT_SOURCE, 0, 100_000, 0.0, 0)
    )
    groupings.counted(gathered({f"c{n}": 100 for n in range(1_000)}, rows))
    routes = groupings.routes(there, None, [0])
    assert routes is not None
    router = routes.tasks[ONE].router(0)
    targets = router.route(np.repeat(hash_keys(pa.array([f"c{n}" for n in range(1_000)])), 20))
    assert np.bincount(targets, minlength=2)[0] / len(targets) == pytest.approx(0.75, abs=0.03)


def test_a_key_that_turns_hot_inside_a_batch_is_split_in_that_batch(alike: None) -> None:
    """No plan knows the new key; by its hash alone, one worker would get half of all lines."""
    groupings, there = TopicRouting(8), tasks("planned")
    calm = [line(client=f"c{n % 1_000}") for n in range(20_000)]
    sudden = [line(client="new" if n % 2 else f"c{n % 1_000}") for n in range(20_000)]
    plan = EnginePlan.of(there.values(), Limits())
    uneven = []
    for lines in (calm, calm, sudden):
        routes = groupings.routes(there, None, range(2))
        assert routes is not None
        found = two_stages(plan, routes, [lines[::2] + lines[1::2][:5_000], lines[1::2][5_000:]])
        groupings.counted(found)
        balance = report(groupings, there).imbalance
        assert balance is not None
        uneven.append(balance.last)
    assert uneven[1] < 0.1
    assert uneven[2] < 0.5  # key grouping: more than 3
    assert len(report(groupings, there).hot[0].workers) > 1


def test_what_a_source_learnt_comes_back_and_goes_on() -> None:
    groupings, there = TopicRouting(4), tasks("w-choices")
    _, first = batch(groupings, there)
    second = groupings.routes(there, None, range(2))
    assert first is not None
    assert second is not None
    before, after = (routes.tasks[ONE].router(0).carried()["load"].sent.sum() for routes in (first, second))
    assert (before, after) == (0, len(SLICES[0]))


def test_a_version_that_is_no_longer_counted_is_forgotten() -> None:
    groupings, there = TopicRouting(2), tasks("key")
    batch(groupings, there)
    groupings.routes({}, None, [0])
    assert groupings.shown("logs", there) == {}
    groupings.routes(there, None, [0])
    assert report(groupings, there).hot == ()


def test_a_parameter_that_does_not_fit_the_workers_is_shown_and_the_task_combined() -> None:
    there = tasks({"strategy": "w-choices", "half_life": 100})
    groupings = TopicRouting(64)
    assert groupings.routes(there, None, [0]) is None
    shown = report(groupings, there)
    assert shown.strategy == "combine"
    assert shown.error is not None
    assert "half_life is 100; it must be above W/theta" in shown.error


class Forgetful(RuntimeError):
    pass


def test_a_batch_stays_counted_if_learning_from_it_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: object, batch: TaskBatch) -> None:
        raise Forgetful

    groupings, there = TopicRouting(2), tasks("key")
    found, _ = batch(groupings, there)
    monkeypatch.setattr(task_module.TaskRouting, "counted", fail)
    with caplog.at_level(logging.ERROR):
        groupings.counted(found)
    assert "task 1v1: what was known for its grouping is forgotten" in caplog.text
    assert groupings.shown("logs", there) == {}
    assert groupings.routes(there, None, [0, 1]) is not None  # it begins again


@pytest.mark.parametrize("step", ["route", "shown"])
def test_a_task_is_combined_if_routing_or_showing_it_fails(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object, *_: object) -> None:
        raise Forgetful

    groupings, there = TopicRouting(2), tasks("key")
    with monkeypatch.context() as patch:
        patch.setattr(task_module.TaskRouting, step, fail)
        found, routes = batch(groupings, there)
        assert (routes is None) == (step == "route")
        assert groupings.shown("logs", there) == {}
    assert sum(found.partials.column("lines").to_pylist()) == len(LINES)
    batch(groupings, there)
    assert report(groupings, there).strategy == "key"


def test_a_key_of_several_periods_and_sources_is_one_key() -> None:
    at = [datetime(2015, 5, 17, 10, minute, tzinfo=UTC) for minute in range(3)]
    lines = [line(client=f"c{n % 7 * (n % 2)}", at=at[n % 3], status=str(n % 5)) for n in range(90)]
    both = by_version(active(spec(dimensions=[CLIENT]), spec(name="other")))
    found = by_task(one_stage(EnginePlan.of(both.values(), Limits()), [lines[n::4] for n in range(4)]))
    assert list(found) == [(1, 1), (2, 1)]
    expected = [Counter(f"c{n % 7 * (n % 2)}" for n in range(90)), Counter(str(n % 5) for n in range(90))]
    for own, counts in zip(found.values(), expected, strict=True):
        keys, tuples = own.by_key
        assert dict(zip(keys.to_pylist(), tuples.tolist(), strict=True)) == counts
        assert own.groups > len(counts)
        assert own.top == max(counts.values()) / 90


def test_holders_of_keys_are_known_only_for_routed_tasks() -> None:
    there = tasks()
    plan = EnginePlan.of(there.values(), Limits())
    assert one_stage(plan, SLICES).holders.equals(HOLDERS.empty_table())
    held = two_stages(plan, routes_by_key(there), SLICES).holders
    assert held.num_rows == 201
    assert set(held.column("worker").to_pylist()) == {0, 1, 2}
