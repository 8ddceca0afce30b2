"""Routers on their way to where tuples are routed, and back."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sluice.engine.tuples import Tuples, hash_keys, read
from sluice.engine.wire import SENT
from sluice.grouping import strategy
from sluice.grouping.base import Counts, WorkerCluster
from sluice.runtime.shipped import LOCATORS
from sluice.spark.session import package_zip
from sluice.speed.routed import routes as module
from sluice.speed.routed.routes import ROUTERS, Route, Routes, Sender, pickled, resume
from tests.speed.routed.stages import ROUTED

CLUSTER = WorkerCluster((1.0, 2.0, 1.0, 3.0))
KEYS = hash_keys(pa.array([f"k{n}" for n in range(50)]))
DICE = np.random.default_rng(1)
#: Three batches of two sources; a fifth of the tuples have one key.
BATCHES = [
    [np.where(DICE.random(600) < 0.2, KEYS[0], DICE.choice(KEYS, 600)) for _ in range(2)] for _ in range(3)
]


@pytest.mark.parametrize("name", ROUTED)
def test_a_router_that_was_shipped_goes_on_as_if_it_had_stayed(name: str) -> None:
    made = strategy(name)
    stayed = {source: made.router(CLUSTER, source=source, seed=7) for source in range(2)}
    kept = {source: made.router(CLUSTER, source=source, seed=7) for source in range(2)}
    for batch in BATCHES:
        route = pickle.loads(pickle.dumps(Route(made, CLUSTER, 7, pickled(kept))))  # noqa: S301
        for source, keys in enumerate(batch):
            away = route.router(source)
            np.testing.assert_array_equal(away.route(keys), stayed[source].route(keys))
            if made.learns:
                resume(kept[source], pickle.dumps(away.carried()))
        counts = Counts.of(np.concatenate(batch))
        for routers in (stayed, kept):
            made.boundary(list(routers.values()), CLUSTER, counts)


def test_what_all_routers_share_is_shipped_once() -> None:
    made = strategy("planned")
    routers = {source: made.router(CLUSTER, source=source) for source in range(8)}
    made.boundary(list(routers.values()), CLUSTER, Counts.of(np.concatenate(BATCHES[0])))
    one = {0: routers[0]}
    assert len(pickled(routers)) < 1.1 * len(pickled(one))


def test_a_source_that_the_driver_did_not_know_gets_a_new_router() -> None:
    made = strategy("pkg")
    route = Route(made, CLUSTER, 7, pickled({}))
    expected = made.router(CLUSTER, source=9, seed=7).route(BATCHES[0][0])
    np.testing.assert_array_equal(route.router(9).route(BATCHES[0][0]), expected)


def tuples(number: int) -> Tuples:
    keys = [f"key {n}" for n in range(number)]
    return Tuples(
        (1, 1),
        np.arange(number, dtype=np.int32),
        pa.array([0] * number, pa.int64()),
        pa.array(keys, pa.string()),
        None,
    )


def sender(name: str) -> Sender:
    return Sender(Routes(4, {(1, 1): Route(strategy(name), CLUSTER, 1, pickled({}))}), 3)


def test_payloads_leave_in_batches_that_are_not_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = list(sender("key").send([tuples(100)], {}))
    assert [len(batch) for batch in whole] == [4]
    monkeypatch.setattr(module, "BATCH_BYTES", 1_000)
    pieces = [batch for batch in sender("key").send([tuples(100)], {}) if len(batch)]
    assert len(pieces) > 1
    assert pa.Table.from_batches(pieces, SENT).equals(pa.Table.from_batches(whole, SENT))
    assert list(sender("key").send([tuples(0)], {})) == []


def test_only_routers_that_learn_come_back() -> None:
    for name, learns in (("key", False), ("planned", False), ("kg2", True), ("shuffle", True)):
        own = sender(name)
        list(own.send([tuples(10)], {}))
        table = own.routers()
        assert table.schema == ROUTERS
        assert [row["source"] for row in table.to_pylist()] == [3] * learns, name


def test_one_source_has_one_router_for_all_of_a_batch() -> None:
    own = sender("shuffle")
    targets = []
    for _ in range(2):
        for batch in own.send([tuples(2)], {}):
            for worker, payload in zip(
                batch.column("worker").to_pylist(), batch.column("payload"), strict=True
            ):
                _, table = read(payload.as_buffer())
                targets += [worker] * table.num_rows
    assert sorted(targets) == [0, 1, 2, 3]


@pytest.mark.slow
def test_strategies_work_from_a_zip_as_on_the_executors_of_a_cluster(tmp_path: Path) -> None:
    code = (
        "import numpy as np, sluice.grouping.key as key; from sluice.grouping.base import WorkerCluster; "
        "assert '.zip' in key.__file__, key.__file__; "
        "print(key.Key().router(WorkerCluster.alike(3)).route(np.arange(9, dtype=np.uint64)).tolist())"
    )
    env = {**os.environ, "PYTHONPATH": str(package_zip(tmp_path)), "NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    found = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    expected = strategy("key").router(WorkerCluster.alike(3)).route(np.arange(9, dtype=np.uint64))
    assert found.stdout.strip() == str(expected.tolist())


@pytest.mark.slow
def test_kernels_that_are_compiled_here_are_not_compiled_again_from_a_zip(tmp_path: Path) -> None:
    """Wherever the zip lies: each application has a folder of its own."""
    code = (
        "import numpy as np, sluice.grouping.key as key; from sluice.grouping.base import WorkerCluster; "
        "print(key.Key().router(WorkerCluster.alike(3)).route(np.arange(9, dtype=np.uint64)).tolist()); "
        "stats = key._route.stats; "
        "print(stats.cache_hits.total(), stats.cache_misses.total(), stats.cache_path)"
    )
    expected = strategy("key").router(WorkerCluster.alike(3)).route(np.arange(9, dtype=np.uint64)).tolist()
    package, cache = package_zip(tmp_path / "built"), tmp_path / "cache"
    env = {**os.environ, "NUMBA_CACHE_LOCATOR_CLASSES": ",".join(LOCATORS), "XDG_CACHE_HOME": str(cache)}
    for application in ("first", "second"):
        own = tmp_path / application / package.name
        own.parent.mkdir()
        shutil.copy(package, own)
        command = [sys.executable, "-c", code]
        found = subprocess.run(
            command, env=env | {"PYTHONPATH": str(own)}, capture_output=True, text=True, check=False
        )
        where = cache / "numba" / package.stem / "sluice" / "grouping"
        assert found.stdout == f"{expected}\n1 0 {where}\n", found.stderr
