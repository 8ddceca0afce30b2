"""Only the task that fails is set aside; the others count as if it had been paused."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from sluice.batch.day_results import to_partials, to_results
from sluice.engine.count import count
from sluice.engine.merge import merge, merge_guarded
from sluice.engine.plan import EnginePlan
from sluice.engine.schema import partials_schema
from sluice.engine.set_aside import SHOWN, Failures, Noted, TasksFailed, Version, leaving_out, reason
from sluice.metrics.accumulators import MAX
from sluice.metrics.team_calls import TeamProcessUnavailable
from sluice.runtime.arrays import Ints
from sluice.runtime.sections import Limits
from sluice.speed.ledger import ByteLedger
from sluice.speed.partition_pass import PartitionPass
from sluice.state.blocks import BlockId, bucket_hash, pack
from sluice.state.merging import merge_into_blocks
from tests.engine.samples import BYTES, active, line, plan, records, spec
from tests.messages import unsigned
from tests.speed.routed.stages import Merged

PATH = {"name": "path", "extract": {"delimiter": " ", "index": 6}}
GOOD = spec(name="good")
MAXIMUM = spec(name="maximum", metrics=["max"], measure=BYTES, dimensions=[PATH])


class Broken(RuntimeError):
    pass


class RaisingMetric:
    """The accumulator `max`, as a team might write it: it raises if a measure is 666."""

    def __init__(self, patch: pytest.MonkeyPatch, *, adding: bool = False, merging: bool = False) -> None:
        self._add, self._merge = MAX.add, MAX.merge
        if adding:
            patch.setattr(MAX, "add", self.add)
        if merging:
            patch.setattr(MAX, "merge", self.merge)

    def add(self, batch: Any) -> dict[str, pa.Array]:
        if 666 in batch.of(batch.numbers.values):
            raise Broken("no devils\0here")
        return self._add(batch)

    def merge(self, columns: Mapping[str, pa.Array], groups: Ints, size: int) -> dict[str, pa.Array]:
        if 666 in columns["max"].to_pylist():
            raise Broken("no devils")
        return self._merge(columns, groups, size)


def passed(made: EnginePlan, *batches: pa.RecordBatch) -> pa.Table:
    work = PartitionPass(made, "logs", ByteLedger().to_table())
    return pa.concat_tables([pa.Table.from_batches(list(work([batch]))) for batch in batches])


def versions(table: pa.Table) -> set[Version]:
    return {(row["task_id"], row["version"]) for row in table.to_pylist()}


def test_the_one_that_raises_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    RaisingMetric(monkeypatch, adding=True)
    counted = count(records([line(size="666"), line()]), plan(MAXIMUM, GOOD))
    assert versions(counted.partials) == {(2, 1)}
    assert counted.failed == {(1, 1): "Broken: no devils\\x00here"}


@pytest.mark.parametrize("where", ["adding", "merging"])
def test_a_fault_of_the_machine_sets_no_task_aside(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """The whole batch fails, and is counted as ever once the machine has what it lacked."""
    lines, made = records([line(), line()]), plan(MAXIMUM, GOOD)

    def unavailable(*_: object) -> None:
        raise TeamProcessUnavailable("too many open files")

    def counted() -> pa.Table:
        found = count(lines, made)
        assert found.failed == {}
        merged, failures = merge_guarded(pa.concat_tables([found.partials, found.partials]))
        assert failures == {}
        return merged

    with monkeypatch.context() as patch:
        patch.setattr(MAX, "add" if where == "adding" else "merge", unavailable)
        with pytest.raises(TeamProcessUnavailable):
            counted()
    assert versions(counted()) == {(1, 1), (2, 1)}


def test_its_partial_aggregates_from_other_partitions_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    RaisingMetric(monkeypatch, adding=True)
    found = passed(plan(MAXIMUM, GOOD), unsigned([line(), line()]), unsigned([line(size="666")], 1))
    gathered = Merged.of(found)
    assert gathered.failed == {(1, 1): "Broken: no devils\\x00here"}
    assert {(r["task_id"], r["lines"]) for r in gathered.partials.to_pylist()} == {(2, 3)}
    assert gathered.counts["counted"] == 3


def test_a_merge_that_raises_names_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [count(records([line(size=n)]), plan(MAXIMUM, GOOD)).partials for n in ("666", "1")]
    RaisingMetric(monkeypatch, merging=True)
    merged, failures = merge_guarded(pa.concat_tables(parts))
    assert failures == {(1, 1): "Broken: no devils"}
    assert [(r["task_id"], r["lines"]) for r in merged.to_pylist()] == [(2, 2)]
    with pytest.raises(TasksFailed, match="1v1: Broken: no devils") as raised:
        merge_into_blocks(pa.concat_tables(parts), {}, lambda _: {})
    assert raised.value.failures == failures


def test_damage_that_is_nobodys_fault_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails_for_several(columns: Any, groups: Ints, size: int) -> dict[str, pa.Array]:
        if size > 1:
            raise Broken("a defect of the platform")
        return {"max": pa.nulls(size, pa.float64())}

    table = count(records([line()]), plan(MAXIMUM, GOOD)).partials
    monkeypatch.setattr(MAX, "merge", fails_for_several)
    with pytest.raises(Broken):
        merge_guarded(table)


def test_the_batch_is_counted_as_if_the_task_had_been_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that is too long only for a dimension of the failing task is no dead letter."""
    RaisingMetric(monkeypatch, adding=True)
    lines = [line(size="666"), line(path="/" + "x" * 2_000), line()]
    calls: list[Failures] = []

    def attempt(tasks: Mapping[Version, Any]) -> Merged:
        found = Merged.of(passed(EnginePlan.of(tasks.values(), Limits()), unsigned(lines)))
        calls.append(dict(found.failed))
        if found.failed:
            raise TasksFailed(found.failed)
        return found

    tasks = {(task.task_id, task.version): task for task in active(MAXIMUM, GOOD)}
    found, left, aside = leaving_out(attempt, tasks)
    paused = Merged.of(passed(EnginePlan.of([tasks[2, 1]], Limits()), unsigned(lines)))
    assert found.partials.equals(paused.partials)
    counts = {"lines": 3, "bytes": sum(map(len, lines)), "doubled": 0, "counted": 3, "dead": 0}
    assert found.counts == paused.counts == counts
    assert (set(left), set(aside), len(calls)) == ({(2, 1)}, {(1, 1)}, 2)


def test_a_failure_of_an_unknown_task_ends_the_batch() -> None:
    def attempt(_: Mapping[Version, Any]) -> None:
        raise TasksFailed({(9, 1): "unknown"})

    with pytest.raises(TasksFailed):
        leaving_out(attempt, {(1, 1): None})


def test_reasons_are_short_enough_to_show() -> None:
    assert len(reason(Broken("x" * 10_000))) == SHOWN
    assert reason(Broken()) == "Broken: no message"


def clients(number: int, first: int = 0) -> list[bytes]:
    return [line(client=f"c{n}") for n in range(first, first + number)]


CLIENTS = spec(name="clients", dimensions=[{"name": "client", "extract": {"delimiter": " ", "index": 0}}])


@pytest.mark.parametrize(("number", "refused"), [(50, False), (51, True)])
def test_more_series_than_allowed_in_one_batch(number: int, refused: bool) -> None:
    counted = count(records(clients(number)), plan(CLIENTS, GOOD, limits=Limits(series=50)))
    assert versions(counted.partials) == ({(2, 1)} if refused else {(1, 1), (2, 1)})
    if refused:
        assert "51 series in one period, 50 are allowed (limits.series)" in counted.failed[1, 1]


def test_more_series_than_allowed_in_the_state() -> None:
    before = merge(count(records(clients(40)), plan(CLIENTS)).partials)
    start = before["period_start"][0].as_py()
    block = BlockId(1, 1, start, 1, 0)
    new = count(records(clients(20, first=30)), plan(CLIENTS)).partials
    same = count(records(clients(20)), plan(CLIENTS)).partials
    state = {block: pack(before)}
    assert merge_into_blocks(new, {(1, 1, start): 1}, lambda _: state, series=50).blocks
    assert merge_into_blocks(same, {(1, 1, start): 1}, lambda _: state, series=40).blocks
    with pytest.raises(TasksFailed, match="about 50 series in one period, 49 are allowed"):
        merge_into_blocks(new, {(1, 1, start): 1}, lambda _: state, series=49)


@pytest.mark.slow
def test_a_few_of_many_buckets_tell_how_many_series_there_are() -> None:
    layout = 64
    table = merge(count(records(clients(6_400)), plan(CLIENTS)).partials)
    start = table["period_start"][0].as_py()
    buckets = bucket_hash(table["key"].combine_chunks()) % layout
    state = {
        BlockId(1, 1, start, layout, n): pack(table.filter(pa.array(buckets == n))) for n in range(layout)
    }
    few = table.filter(pa.array(buckets < 4))

    def merged(partials: pa.Table, limit: int) -> None:
        merge_into_blocks(
            partials, {(1, 1, start): layout}, lambda ids: {i: state[i] for i in ids}, series=limit
        )

    for partials in (few, table):
        merged(partials, 6_400)  # never refused within the limit
        with pytest.raises(TasksFailed, match="series in one period"):
            merged(partials, 3_000)
    with pytest.raises(TasksFailed, match="about 6,400 series"):
        merged(table, 6_399)  # exact if all buckets are touched


def test_the_limit_is_a_period_not_a_task() -> None:
    lines = [line(client=f"c{n}", at=datetime(2015, 5, 17, 10, n % 3, tzinfo=UTC)) for n in range(90)]
    counted = count(records(lines), plan(CLIENTS, limits=Limits(series=30)))
    assert not counted.failed
    assert counted.partials.num_rows == 90
    assert partials_schema().names == counted.partials.schema.names


def test_offline_failing_tasks_are_reported_and_the_others_have_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    RaisingMetric(monkeypatch, adding=True)
    tasks = active(MAXIMUM, GOOD)
    told: Failures = {}
    batch = records([line(size="666"), line()])
    partials = list(to_partials(iter([batch]), plan(MAXIMUM, GOOD), aside=told.update))
    rows = pa.Table.from_batches(to_results(iter(partials), tasks, aside=told.update)).to_pylist()
    assert told == {(1, 1): "Broken: no devils\\x00here"}
    assert [(row["task"], dict(row["results"])) for row in rows] == [("good", {"count": 2.0})]
    with pytest.raises(TasksFailed):  # a caller that needs every task must learn of it
        list(to_partials(iter([batch]), plan(MAXIMUM)))


def test_offline_too_many_series() -> None:
    told: Failures = {}
    partials = list(to_partials(iter([records(clients(30))]), plan(CLIENTS, GOOD)))
    rows = pa.Table.from_batches(
        to_results(iter(partials), active(CLIENTS, GOOD), series=29, aside=told.update)
    )
    assert set(rows.column("task").to_pylist()) == {"good"}
    assert "30 series in one period, 29 are allowed" in told[1, 1]


def test_the_notes_of_executors_are_combined() -> None:
    noted = Noted()
    assert noted.addInPlace(noted.zero({}), {(1, 1): "a"}) == {(1, 1): "a"}
    assert noted.addInPlace({(1, 1): "a"}, {(2, 1): "b"}) == {(1, 1): "a", (2, 1): "b"}
