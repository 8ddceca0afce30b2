"""The bench of grouping in Spark, tested without Spark: stages, measures, judging auto."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.grouping import strategy
from sluice.grouping.auto import BatchFigures, Costs, Decision
from sluice.grouping.base import ParameterOutOfBounds, WorkerCluster
from sluice.traffic.edu import EDU
from sluice_lab.bench import (
    grouping_contenders,
    grouping_map,
    grouping_spark,
    grouping_stages,
    grouping_states,
)
from sluice_lab.bench.contenders import Disagree
from sluice_lab.bench.grouping_contenders import ContenderSetting, compare, rules
from sluice_lab.bench.grouping_map import POINTS, Point, Rated
from sluice_lab.bench.grouping_measures import Measured, Ran, SlotLoads, middle
from sluice_lab.bench.grouping_stages import FOUND_ARROW, GroupingJob, HashWork, SlotLoad, Wait, found
from sluice_lab.bench.grouping_states import COUNTERS, States, aggregate, from_payloads, merge, payloads, same
from sluice_lab.bench.salting import Salting
from sluice_lab.clusters import equal
from sluice_lab.streams import edu_stream
from tests.own_time import own_time

pytestmark = [pytest.mark.slow, pytest.mark.long]

TUPLES, WORKERS, SOURCES = 6_000, 16, 3


def in_process(session: object, job: GroupingJob) -> pa.Table:
    """Run a job as Spark does, but one slot after the other."""
    sources = range(len(job.slices))
    if job.strategy.combines:
        return pa.Table.from_batches([rows for source in sources for rows in job.combine(source)])
    sent: dict[int, list[bytes]] = {}
    for source in sources:
        for worker, payload in zip(*job.route(source).to_pydict().values(), strict=True):
            sent.setdefault(worker, []).append(payload)
    return pa.Table.from_batches([r for worker, ps in sent.items() for r in job.aggregate(worker, ps)])


def setting(folder: Path, cluster: WorkerCluster, sources: int = SOURCES, size: int = 24) -> ContenderSetting:
    return ContenderSetting(edu_stream(), TUPLES, cluster, sources, Wait(0.0), size, folder)


def ran(seconds: float = 1.0, state: int = 100, cost: float = 0.0) -> Ran:
    figures = BatchFigures(400_000, 400, 3_200.0, cost, 24.0, EDU.top, 1 / 8, 32)
    return Ran(seconds, 0.0, 0.0, seconds, 0.0, 10, 5, state, state, 10, 0.5, 0.9, figures)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    folder = tmp_path_factory.mktemp("slices")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouping_contenders, "run", in_process)
        return compare(None, rules(), setting(folder, equal(WORKERS)), 2, "test")  # type: ignore[arg-type]


def test_all_contenders_give_the_states_of_the_batch(measured: Measured) -> None:
    """`compare` would raise if they did not."""
    assert list(measured) == ["key", "shuffle", "pkg", "kg2", "tag", "combine", "salted", "planned"]
    assert {len(runs) for runs in measured.values()} == {2}


def test_state_is_what_the_workers_hold(measured: Measured) -> None:
    for runs in measured.values():
        for one in runs:
            assert one.state == one.partials * (8 + 24)
            assert one.state / WORKERS <= one.most <= one.state
    key, planned, shuffle = (measured[name][-1] for name in ("key", "planned", "shuffle"))
    assert key.partials == key.figures.groups == planned.figures.groups
    assert key.partials < planned.partials < shuffle.partials


def test_balance_is_as_the_strategies_promise(measured: Measured) -> None:
    # The hottest key alone has more than a worker's share.
    assert middle(measured["key"], "uneven") > EDU.top * WORKERS - 1
    assert middle(measured["planned"], "uneven") < middle(measured["key"], "uneven") / 2
    assert middle(measured["shuffle"], "uneven") <= SOURCES / (TUPLES / WORKERS)


def test_a_combining_strategy_sends_no_tuples(measured: Measured) -> None:
    sent = {name: runs[0].sent for name, runs in measured.items()}
    assert sent.pop("combine") == 0
    assert min(sent.values()) >= TUPLES * 16
    combined = measured["combine"][0].figures
    expected = measured["planned"][0].figures
    assert combined.rows == measured["combine"][0].partials
    assert expected.rows == pytest.approx(combined.rows, rel=0.05)


def test_latencies_end_when_the_batch_has_been_served(measured: Measured) -> None:
    for runs in measured.values():
        for one in runs:
            assert 0 < one.p50 <= one.p99 <= one.seconds
            assert one.span <= one.seconds
            assert one.boundary + one.merging < one.seconds


def test_a_contender_that_loses_a_payload_is_not_timed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grouping_contenders, "run", lambda session, job: in_process(session, job)[1:])
    with pytest.raises(Disagree, match="test, key"):
        compare(None, {"key": strategy("key")}, setting(tmp_path, equal(4)), 1, "test")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["shuffle", "combine"])
def test_load_is_tuples_times_the_times_of_the_slots(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grouping_contenders, "run", in_process)
    unequal = setting(tmp_path, WorkerCluster((1.0, 3.0)), sources=2)
    found = compare(None, {name: strategy(name)}, unequal, 1, "test")  # type: ignore[arg-type]
    assert found[name][0].uneven == pytest.approx(0.5)


def test_the_sources_slices_are_the_batch(tmp_path: Path) -> None:
    made = setting(tmp_path, equal(4))
    slices = [grouping_stages.read(path) for path in made.slices(7)]
    assert [len(part) for part in slices] == [TUPLES // SOURCES] * SOURCES
    keys = np.concatenate([part.column("key").to_numpy() for part in slices])
    assert np.array_equal(np.sort(keys), np.sort(made.keys(7)))
    assert not np.array_equal(made.values(7), made.values(8))


def states_of(keys: list[int], size: int) -> States:
    values = np.random.default_rng(len(keys)).integers(1 << 64, size=len(keys), dtype=np.uint64)
    return aggregate(np.array(keys, np.uint64), values, size)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, (1 << 64) - 1), st.integers(0, 3)), min_size=1),
    st.sampled_from([COUNTERS, COUNTERS + 1, 40]),
)
def test_partial_states_merge_to_those_of_one_piece(tuples: list[tuple[int, int, int]], size: int) -> None:
    keys, values, parts = (np.array(column, np.uint64) for column in zip(*tuples, strict=True))
    partial = [aggregate(keys[parts == part], values[parts == part], size) for part in (2, 0, 3, 1)]
    assert same(merge(np.concatenate(partial)), aggregate(keys, values, size))


def test_a_state_is_a_count_a_sum_and_maxima() -> None:
    values = np.array([5 << 48 | 9 << 40, 7 << 48 | 3 << 40, 1 << 48], np.uint64)
    (one, two) = aggregate(np.array([2, 2, 1], np.uint64), values, COUNTERS + 1)
    assert (one["key"], one["count"], one["sum"], list(one["places"])) == (1, 1, 1, [0])
    assert (two["key"], two["count"], two["sum"], list(two["places"])) == (2, 2, 12, [9])


def test_states_travel_in_pieces_and_their_load_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping_states, "PAYLOAD_BYTES", 100)
    states = states_of([1, 2, 3, 4, 5, 6, 7], 24)
    assert [len(piece) for piece in payloads(states)] == [96, 96, 32]
    rows = pa.Table.from_batches(found(SlotLoad(3, 7, 50, 1.0, 2.0, 0.5), states), FOUND_ARROW)
    assert rows.column("worker").to_pylist() == [3, 3, 3]
    assert rows.column("tuples").to_pylist() == [7, 0, 0]
    assert same(from_payloads(rows.column("states").to_pylist(), 24), states)
    assert [len(piece) for piece in payloads(states[:0])] == [0]


def test_a_salted_key_is_shared_out_among_its_salts() -> None:
    router = Salting(salts=4).router(equal(64))
    shares = np.bincount(router.route(np.full(400, 7, np.uint64)), minlength=64)
    assert 1 < np.count_nonzero(shares) <= 4
    assert not np.any(shares % 100)
    with pytest.raises(ParameterOutOfBounds, match="salts is 0"):
        Salting(salts=0)


def test_a_tuple_waits_or_works_by_its_workers_time(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    own_time(monkeypatch, grouping_stages, sleep=slept.append)
    Wait(2.0)(np.zeros(3, np.uint64), 1.5)
    assert slept == [9.0]
    hashed: list[Any] = []

    class Hash:
        def __init__(self, value: bytes) -> None:
            hashed.append(value)

        def digest(self) -> None: ...

    monkeypatch.setattr(grouping_stages.hashlib, "blake2b", Hash)
    HashWork(2)(np.zeros(3, np.uint64), 1.5)
    assert len(hashed) == 9


def test_workers_are_forked_with_all_they_need_and_search_no_archives(tmp_path: Path) -> None:
    archive = tmp_path / "archive.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("archived.py", "")
    code = """
import gc, sys, threading, zipimport
import archived
from sluice.spark.worker_daemon import prepare
from sluice_lab.bench.grouping_daemon import load
prepare(load)
print(any(isinstance(found, zipimport.zipimporter) for found in sys.path_importer_cache.values()))
bench = "sluice_lab.bench.grouping_stages"
print({"pandas", "pyspark.worker", bench, "sluice.grouping.tag"} <= set(sys.modules))
print(gc.get_freeze_count() > 0, threading.active_count())
"""
    paths = [str(archive), *sys.path]
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.splitlines() == ["False", "True", "True 1"]


def test_each_worker_serves_its_tuples_one_after_the_other() -> None:
    nothing = states_of([], COUNTERS)
    served = [SlotLoad(5, 2, 50, 0.0, 1.0), SlotLoad(1, 1, 50, 1.0, 3.0)]
    loads = SlotLoads.of(pa.Table.from_batches([row for load in served for row in found(load, nothing)]))
    assert loads.latencies().tolist() == [0.5, 1.0, 3.0]
    assert loads.span == 3.0
    assert loads.by_worker(np.full(6, 2.0)).tolist() == [0, 2, 0, 0, 0, 4]


@pytest.mark.parametrize("ratio", grouping_map.RATIOS)
def test_a_points_stream_has_its_distinct_keys_and_one_hot_one(ratio: float) -> None:
    keys = grouping_map.stream(20_000, ratio).batch(0, 20_000)
    _, counts = np.unique(keys, return_counts=True)
    assert len(counts) / len(keys) == pytest.approx(ratio, rel=0.03)
    assert counts.max() / len(keys) == pytest.approx(EDU.top, rel=0.1)


def test_a_points_batch_fits_into_the_driver() -> None:
    assert len(set(POINTS)) == 18
    assert Point(0.0, 0.001, 16).tuples(400_000) == 400_000
    assert all(p.tuples(400_000) * p.ratio * p.size <= grouping_map.MOST_STATE for p in POINTS)


def test_auto_chooses_what_its_own_figures_say() -> None:
    for cost, wanted in ((0.0, "combine"), (50e-6, "planned")):
        runs = {name: [ran(cost=cost)] for name in grouping_map.CONTENDERS}
        assert grouping_map.chosen(runs, Costs()).strategy == wanted
        assert grouping_map.chosen(runs, Costs(stage=60.0)).strategy == "combine"


def rated(loss: float) -> Rated:
    times = {"combine": 2.0, "key": 3.0, "planned": 9.0, "shuffle": 9.0}
    return Rated(POINTS[0], 1_000, times, Decision("key", "because"), loss)


def test_auto_is_measured_again_where_another_seemed_to_be_better(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []

    def measure(session: None, point: Point, tuples: int, rounds: int, names: tuple[str, ...]) -> Measured:
        asked.append(names)
        seconds = {"combine": 3.0, "planned": 1.2 if len(asked) == 1 else 1.05, "key": 1.0, "shuffle": 2.0}
        return {name: [ran(seconds[name], cost=50e-6)] * rounds for name in names}

    monkeypatch.setattr(grouping_map, "measure", measure)
    first = grouping_map.rate(None, POINTS[0], 1_000, 3, Costs())  # type: ignore[arg-type]
    found = grouping_map.duel(None, first, 5)  # type: ignore[arg-type]
    assert asked == [grouping_map.CONTENDERS, ("key", "planned")]
    assert (found.best, found.chosen.strategy) == ("key", "planned")
    assert found.loss == pytest.approx(1.05)
    best = replace(first, chosen=Decision("key", "because"))
    assert grouping_map.duel(None, best, 5).loss == 1.0  # type: ignore[arg-type]
    assert len(asked) == 2


def test_auto_is_judged_by_the_time_that_it_loses() -> None:
    points = [rated(1.0)] * 15 + [rated(1.1), rated(1.2), rated(1.6)]
    near, worst = grouping_map.bars(points)
    assert (near.figure, near.holds) == (16, True)
    assert (worst.figure, worst.holds) == (pytest.approx(1.6), False)
    assert not grouping_map.bars([*points[1:], rated(1.2)])[0].holds
    assert grouping_map.bars([rated(1.0)] * 8)[0].limit == 7
    assert grouping_map.table(points, Costs()).rows[-1][-3:] == ["combine", "key", pytest.approx(1.6)]


def test_planned_is_compared_with_key_and_shuffle() -> None:
    runs = {"key": [ran(6.0)], "shuffle": [ran(1.8, 3_000)], "planned": [ran(2.0, 104)]}
    over_key, over_shuffle, state = grouping_spark.waiting_bars(runs)
    assert (over_key.figure, over_key.holds) == (3.0, True)
    assert (over_shuffle.figure, over_shuffle.holds) == (pytest.approx(0.9), False)
    assert (state.figure, state.holds) == (1.04, True)
    assert [bar.holds for bar in grouping_spark.real_bars(runs)] == [False]


def test_the_table_says_what_no_grouping_can_beat(measured: Measured) -> None:
    table = grouping_spark.table(grouping_spark.ALIKE, measured)
    assert table.title.endswith("at best 1.25 s of waiting")
    assert {len(row) for row in table.rows} == {len(table.columns)}
    assert "waiting" not in grouping_spark.table(grouping_spark.REAL, measured).title
