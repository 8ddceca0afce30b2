"""The arithmetic of the benches `workers` and `driver`, and a tiny run of each."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sluice_lab.bench import driver, workers
from sluice_lab.bench.emulated import Calls, SlowHBase
from sluice_lab.bench.workers import BatchTimes, WorkerCost


def work(rows: int, waited: float = 0.0, computed: float = 0.0) -> WorkerCost:
    return WorkerCost(Calls(2, 1_000_000, waited), rows, computed)


def test_the_ideal_shares_waiting_by_workers_and_computing_by_cores() -> None:
    one = BatchTimes(stage=34.0, driver=0.5, works=[work(100, 30.0, 4.0)])
    assert workers.ideal(one, 1, cores=2) == one.seconds == 34.5
    assert workers.ideal(one, 2, cores=2) == 15.0 + 2.0 + 0.5
    assert workers.ideal(one, 10, cores=2) == 3.0 + 2.0 + 0.5


def test_a_worker_without_a_part_makes_the_others_parts_too_large() -> None:
    assert BatchTimes(1.0, 0.0, [work(30), work(30)]).imbalance == 1
    assert BatchTimes(1.0, 0.0, [work(30), work(30), work(0)]).imbalance == 1.5


def test_each_number_of_workers_has_a_bar() -> None:
    batches = {
        1: BatchTimes(34.0, 0.5, [work(100, 30.0, 4.0)]),
        2: BatchTimes(17.0, 0.5, [work(50, 15.0)] * 2),
        4: BatchTimes(15.0, 0.5, [work(25, 7.5)] * 4),
    }
    found = workers.outcome(batches, 2, "", quick=True)
    assert [(bar.bar[:9], bar.holds) for bar in found.bars] == [("2 workers", True), ("4 workers", False)]
    assert [row[0] for row in found.tables[0].rows] == ["1", "2", "4"]


def test_the_slow_hbase_waits_for_each_call_and_its_bytes(tmp_path: Path) -> None:
    store = SlowHBase(tmp_path, call_seconds=0.02, mib_seconds=0.05)
    began = time.perf_counter()
    store.rewrite("state", [(b"1v1/0/1/0", {b"s:1": bytes(1 << 20), b"s:2": b"x"}, [])])
    store.rewrite("state", [(b"1v1/0/1/0", {b"s:3": b"y"}, [b"s:2"])])
    found = store.get("state", [b"1v1/0/1/0", b"1v1/0/1/1"], [b"s"])
    assert time.perf_counter() - began >= store.calls.waited == pytest.approx(0.16, abs=0.001)
    assert {name: len(data) for name, data in found[b"1v1/0/1/0"].items()} == {b"s:1": 1 << 20, b"s:3": 1}
    assert found.keys() == {b"1v1/0/1/0"}
    assert store.calls.number == 3


@pytest.mark.slow
def test_any_number_of_workers_merges_the_same_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MIB_SECONDS", 0.0)
    parts = [workers.partials(6, 50, seed) for seed in (1, 2)]
    found = workers.measure(tmp_path, parts, (1, 3))
    assert [sum(work.rows for work in batch.works) for batch in found.values()] == [300, 300]
    assert [len(batch.works) for batch in found.values()] == [1, 3]
    assert all(batch.waited >= workers.CALL_SECONDS for batch in found.values())
    assert all(batch.computed > 0 for batch in found.values())


@pytest.mark.slow
def test_the_drivers_batches_hold_all_series() -> None:
    one = driver.Driver(tasks=2, series=600)
    one.batch()
    one.batch()
    assert len(one.cpu) == 2
    assert one._writer.seq == 4
    assert sum(period.bytes for period in one._writer._known.all().values()) > 600
    figures = {600: [0.010, 0.011, 0.012], 60_000: [0.013, 0.0125, 0.012]}
    (bar,) = driver.outcome(figures, "", quick=True).bars
    assert bar.figure == pytest.approx(12.5 / 11)
    assert bar.holds
