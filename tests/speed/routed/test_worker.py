"""A task that fails at a worker is set aside like one that fails at a source."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sluice.engine.plan import EnginePlan
from sluice.engine.wire import SENT
from sluice.runtime.sections import Limits
from sluice.speed import observed
from sluice.speed.routed import routes as routes_module
from sluice.speed.routed import worker as module
from sluice.speed.routed.worker import WorkerPass
from tests.engine.samples import active, line
from tests.engine.test_set_aside import GOOD, MAXIMUM, RaisingMetric
from tests.speed.routed.stages import (
    Merged,
    by_version,
    one_stage,
    received,
    routes_of,
    sent,
    two_stages,
)

TASKS = active(MAXIMUM, GOOD)
PLAN = EnginePlan.of(TASKS, Limits())
WHY = {(1, 1): "Broken: no devils\\x00here"}


def test_its_partial_aggregates_from_other_workers_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    RaisingMetric(monkeypatch, adding=True)
    slices = [[line(size="666", path="/a"), line(path="/b")], [line(path="/c"), line(path="/d")]]
    routes = routes_of(by_version(TASKS), "shuffle", workers=3, sources=2)
    found = two_stages(PLAN, routes, slices)
    assert found.failed == WHY == one_stage(PLAN, slices).failed
    assert {(row["task_id"], row["lines"]) for row in found.partials.to_pylist()} == {(2, 4)}
    assert found.counts["counted"] == 4


def test_a_task_that_failed_takes_no_more_tuples(monkeypatch: pytest.MonkeyPatch) -> None:
    RaisingMetric(monkeypatch, adding=True)
    monkeypatch.setattr(module, "AGGREGATED_TUPLES", 1)
    slices = [[line(size="666"), line()], [line()], [line()]]
    found = two_stages(PLAN, routes_of(by_version(TASKS), "key", workers=1, sources=3), slices)
    assert found.failed == WHY
    assert [(row["task_id"], row["lines"]) for row in found.partials.to_pylist()] == [(2, 4)]


def test_a_merge_that_raises_at_a_worker_names_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    RaisingMetric(monkeypatch, merging=True)
    monkeypatch.setattr(module, "AGGREGATED_TUPLES", 1)
    slices = [[line(size="666")], [line()]]
    found = two_stages(PLAN, routes_of(by_version(TASKS), "key", workers=1, sources=2), slices)
    assert found.failed == {(1, 1): "Broken: no devils"}
    assert [(row["task_id"], row["lines"]) for row in found.partials.to_pylist()] == [(2, 2)]


class Lost(RuntimeError):
    pass


def test_a_router_that_raises_fails_no_task(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from sluice.grouping.routing import LoopRouter

    def lost(self: object, keys: object) -> None:
        raise Lost("no way")

    slices = [[line(path=f"/{n}") for n in range(9)], [line()]]
    tasks = by_version(TASKS)
    routes = routes_of({(1, 1): tasks[1, 1]}, "pkg", workers=3, sources=2)
    monkeypatch.setattr(LoopRouter, "route", lost)
    found = two_stages(PLAN, routes, slices)
    assert found.failed == {}
    assert sorted(map(str, found.partials.to_pylist())) == sorted(
        map(str, one_stage(PLAN, slices).partials.to_pylist())
    )
    assert found.routers.num_rows == 0  # nothing is learnt from a failure
    assert "1v1: its lines go to workers by the hash" in caplog.text


def test_tuples_that_cannot_be_sent_fail_their_task_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> None:
        raise Lost("no way")

    slices = [[line()], [line()]]
    tasks = by_version(TASKS)
    routes = routes_of({(1, 1): tasks[1, 1]}, "key", workers=2, sources=2)
    monkeypatch.setattr(routes_module, "payloads", lost)
    found = two_stages(PLAN, routes, slices)
    assert found.failed == {(1, 1): "Lost: no way"}
    assert [(row["task_id"], row["lines"]) for row in found.partials.to_pylist()] == [(2, 2)]


def test_rows_that_are_no_tuples_pass_a_worker_unchanged() -> None:
    slices = [[line(), b"no log line"]]
    batches = sent(PLAN, routes_of(by_version(TASKS), "key", workers=2, sources=1), slices)
    other = [
        row
        for batch in batches
        for row in pa.Table.from_batches([batch], SENT).to_pylist()
        if row["kind"] != "tuples"
    ]
    passed = [
        row
        for own in received(batches).values()
        for batch in WorkerPass(PLAN)(own)
        for row in pa.Table.from_batches([batch], SENT).to_pylist()
    ]
    assert {row["kind"] for row in other} >= {"dead", "seen", "counts", "days"}
    assert all(row in passed for row in other)
    kinds = {row["kind"] for row in passed} - {row["kind"] for row in other}
    assert kinds == {"routed", "taken"}


def test_what_a_routed_task_took_is_the_same_as_where_it_is_combined() -> None:
    slices = [[line(), line(size="-")], [line(), b"no log line"]]
    routed = two_stages(PLAN, routes_of(by_version(TASKS), "key", workers=2, sources=2), slices)
    combined = one_stage(PLAN, slices)
    for column in ("lines", "skipped"):
        took = observed.by_label(routed.taken, column)
        assert took == observed.by_label(combined.taken, column)
    assert observed.by_label(routed.taken, "lines") == {"1v1": 3, "2v1": 3}


def test_a_worker_that_was_sent_nothing_returns_nothing() -> None:
    nothing = pa.RecordBatch.from_pylist([], SENT)
    assert sum(len(batch) for batch in WorkerPass(PLAN)([nothing])) == 0
    assert Merged.of(SENT.empty_table()).partials.num_rows == 0
