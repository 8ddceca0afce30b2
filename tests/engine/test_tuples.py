"""Tuples on their way to a worker: none is lost or changed, and messages are not too large."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.engine import tuples as module
from sluice.engine.extract import ExtractedValues
from sluice.engine.tuples import TUPLES, Tuples, hash_keys, payloads, read

KEYS = ("a", "", "é", "x_y")


def made(groups: list[int], measures: list[str | None] | None = None) -> Tuples:
    texts = ["", "1", "long" * 100]
    values = None
    if measures is not None:
        codes = np.array([len(texts) if m is None else texts.index(m) for m in measures], np.int64)
        values = ExtractedValues(codes, pa.array(texts, pa.string()))
    return Tuples(
        (3, 2),
        np.array(groups, np.int32),
        pa.array([60_000 * n for n in range(len(KEYS))], pa.int64()),
        pa.array(KEYS, pa.string()),
        values,
    )


routed = st.lists(
    st.tuples(
        st.integers(0, len(KEYS) - 1), st.sampled_from(["", "1", "long" * 100, None]), st.integers(0, 4)
    )
)


@given(routed, st.sampled_from([1, 40, 500, 8 << 20]))
def test_each_worker_gets_its_tuples_in_order_in_small_messages(
    found: list[tuple[int, str | None, int]], most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PAYLOAD_BYTES", most)
        targets = np.array([worker for *_, worker in found], np.int32)
        given_ = made([group for group, *_ in found], [measure for _, measure, _ in found])
        messages = list(payloads(given_, targets, 5))
    got: defaultdict[int, list[tuple[int, str, str | None]]] = defaultdict(list)
    for worker, payload in messages:
        version, table = read(pa.py_buffer(payload))
        assert version == (3, 2)
        assert table.schema == TUPLES
        rows = [(row["period_start"], row["key"], row["measure"]) for row in table.to_pylist()]
        sizes = [16 + len(key.encode()) + len(measure or "") for _, key, measure in rows]
        assert sum(sizes) <= most or len(rows) == 1
        got[worker] += rows
    expected: defaultdict[int, list[tuple[int, str, str | None]]] = defaultdict(list)
    for group, measure, worker in found:
        expected[worker].append((60_000 * group, KEYS[group], measure))
    assert got == expected


def test_a_task_without_a_measure_sends_none() -> None:
    ((worker, payload),) = payloads(made([0, 1, 1]), np.array([2, 2, 2], np.int32), 3)
    _, table = read(pa.py_buffer(payload))
    assert (worker, table.column("measure").to_pylist()) == (2, [None] * 3)


def test_numbers_of_workers_are_kept_apart_up_to_the_last() -> None:
    targets = np.array([65_535, 0, 256, 65_535], np.int32)
    messages = list(payloads(made([0, 1, 2, 3]), targets, 1 << 16))
    counts = Counter({worker: read(pa.py_buffer(payload))[1].num_rows for worker, payload in messages})
    assert counts == {65_535: 2, 0: 1, 256: 1}


def test_a_key_has_the_same_hash_wherever_it_is() -> None:
    tuples = made([2, 0, 2, 3])
    assert len({*tuples.hashes.tolist()}) == 3
    assert tuples.hashes[0] == tuples.hashes[2] == hash_keys(pa.array(["é"]))[0]
    sliced = pa.array(["zz", *KEYS]).slice(1)
    np.testing.assert_array_equal(hash_keys(sliced), hash_keys(pa.array(KEYS)))
    assert len(hash_keys(pa.array([], pa.string()))) == 0
