"""The bench `speedup`: its arithmetic, and the doubles that it hands to the speed layer."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from sluice.runtime.settings import Settings
from sluice.storage.hbase import RESULTS, STATE
from sluice_lab.bench import speedup, workload
from sluice_lab.bench.emulated import SlowConnections
from sluice_lab.bench.speedup import CommittedBatch


def committed(*batches: tuple[float, int]) -> list[CommittedBatch]:
    began = datetime(2026, 1, 1, tzinfo=UTC)
    return [CommittedBatch(began + timedelta(seconds=at), lines) for at, lines in batches]


def test_the_rate_leaves_out_the_batches_that_start_the_workers() -> None:
    assert speedup.WARM == 2
    assert speedup.rate(committed((10, 1_000), (15, 4_000), (17, 4_000), (19, 6_000))) == 2_500


def test_the_bar_is_the_ratio_of_two_workers_to_one() -> None:
    one = committed((10, 1), (12, 1), (22, 10_000))
    two = committed((10, 1), (12, 1), (17, 10_000))
    found = speedup.outcome({1: one, 2: two}, "", quick=True)
    (bar,) = found.bars
    assert (bar.figure, bar.holds) == (2.0, True)
    assert [row[1] for row in found.tables[0].rows] == [1_000, 2_000]
    slow = committed((10, 1), (12, 1), (18.5, 10_000))
    assert not speedup.outcome({1: one, 2: slow}, "", quick=True).bars[0].holds


def test_the_double_goes_to_other_processes_and_shares_its_state(tmp_path: Path) -> None:
    made = SlowConnections(str(tmp_path), 0.0, 0.0, "postgresql+psycopg2://nobody@127.0.0.1/none")
    other = pickle.loads(pickle.dumps(made))  # noqa: S301 - made here
    assert hash(other) == hash(made)
    made.hbase().rewrite(STATE, [(b"1v1/0/1/0", {b"s:1": b"one", b"s:2": b"two"}, [])])
    assert other.hbase().get(STATE, [b"1v1/0/1/0"], [b"s"]) == {
        b"1v1/0/1/0": {b"s:1": b"one", b"s:2": b"two"}
    }
    assert other.hbase().delete(STATE, [(b"1v1/0/1/0", [b"s:1"])]) == 1
    assert made.hbase().get(STATE, [b"1v1/0/1/0"], [b"s"]) == {b"1v1/0/1/0": {b"s:2": b"two"}}
    assert made.hbase().put_table(RESULTS, pa.table({"row": [b"1v1_"]}), timestamp=1) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["1v1%2F0%2F1%2F0"]
    assert other.log("logs").topic == "logs"


def test_the_topic_has_copies_of_the_lines_in_blocks_over_all_partitions() -> None:
    sent: list[tuple[bytes, int]] = []

    class Producer:
        def __init__(self, **_: object) -> None: ...

        def send(self, topic: str, body: bytes, *, headers: object, partition: int) -> None:
            sent.append((body, partition))

        def flush(self) -> None: ...

        def close(self) -> None: ...

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(speedup, "KafkaProducer", Producer)
        patch.setattr(speedup, "identity_key", lambda _: b"key")
        lines = workload.lines(2_000, 60)
        assert speedup.fill(Settings(instance="trial"), lines, 3) == 6_000
    assert b"\n".join(body for body, _ in sent).split(b"\n") == lines.to_pylist() * 3
    assert {partition for _, partition in sent} == set(range(speedup.PARTITIONS))
