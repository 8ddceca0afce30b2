"""Both Spark jobs on a standalone cluster of two workers; their Python lacks our package."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from sluice.runtime.settings import Settings
from sluice.stack.environment import environment
from sluice.storage.tables import schema
from sluice_lab.bench.spark_cluster import cluster
from sluice_lab.ports import free_ports
from sluice_lab.waiting import until
from tests.quality.two_layers import TwoLayers
from tests.speed.speed_driver import STAMP, SpeedTest, access_lines

pytestmark = [pytest.mark.stack, pytest.mark.long]

WORKERS = ("", "")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def bare_python(directory: Path) -> Path:
    """The base interpreter with the installed libraries but without the checkout's packages.

    A .pth file makes the checkout importable, and such files are read only in site directories.
    """
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    script = directory / "python"
    libraries = sysconfig.get_path("purelib")
    script.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{libraries}" exec {base} "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    attempt = [script, "-c", "import pyarrow, sluice"]
    found = subprocess.run(attempt, capture_output=True, text=True, check=False)
    assert "No module named 'sluice'" in found.stderr
    return script


@pytest.fixture(scope="module")
def master(stack: Settings, directory: Path) -> Iterator[str]:
    """The address of a standalone cluster on loopback."""
    port, page = free_ports(2)
    address = f"spark://127.0.0.1:{port}"
    with cluster(environment(stack), directory, address, page, WORKERS):
        yield address


def test_the_speed_layer_on_a_cluster(
    stack: Settings, master: str, bare_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_SPARK__MASTER", master)
    home = tmp_path / "home"
    home.mkdir()
    speed = SpeedTest(stack, home)
    try:
        status = {"name": "status", "extract": {"delimiter": " ", "index": 8}}
        client = {"delimiter": " ", "index": 0, "type": "text"}
        clients = speed.apply("clients", period="1h", dimensions=[status], measure=client, metrics=["unique"])
        lines = access_lines(2_000, seed=9)
        speed.append(lines)
        with speed.running(PYSPARK_PYTHON=str(bare_python), SLUICE_SPEED__SMALL_BATCH="0"):
            until(speed.caught_up)
        speed.check()
        # A sketch's compiled kernels are there too, although nothing was compiled on the workers before.
        found = speed.results(clients)
        assert {value for _, value in found} == {line.split()[8].decode() for line in lines}
        for (start, value), estimate in found.items():
            seen = {
                line.split()[0] for line in lines if hour(line) == start and line.split()[8].decode() == value
            }
            assert estimate == pytest.approx(len(seen), rel=0.05)
    finally:
        speed.close()


def hour(line: bytes) -> int:
    """The start of a line's hour, in ms of the epoch."""
    stamp = STAMP.search(line)
    assert stamp
    at = datetime.strptime(stamp[1].decode(), "%d/%b/%Y:%H:%M:%S %z")
    return int(at.timestamp()) // 3600 * 3_600_000


def test_the_nightly_batch_on_a_cluster(
    stack: Settings, master: str, bare_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = f"cluster_{os.getpid()}"
    day = date(2026, 3, 1)
    layers = TwoLayers(stack, topic)
    try:
        text = access_lines(500, seed=10, start=datetime(2026, 3, 1, tzinfo=UTC))
        offset = 0
        lines = []
        for line in text:
            lines.append(("access.2026-03-01.log", offset, line))
            offset += len(line) + 1
        layers.both(lines)
        monkeypatch.setenv("SLUICE_SPARK__MASTER", master)
        nightly = [sys.executable, str(stack.root / "jobs" / "nightly.py")]
        subprocess.run(
            [*nightly, "--topic", topic, "--day", str(day), "--run-id", "cluster"],
            env={**environment(stack), "PYSPARK_PYTHON": str(bare_python)}, check=True, timeout=300,
        )  # fmt: skip
        t = schema.days.c
        with layers.database.connect() as connection:
            computed = connection.execute(sa.select(t.lines).where(t.topic == topic, t.day == day)).scalar()
        assert computed == len(lines)
    finally:
        layers.forget()
