"""`sluice jobs`: archivers and drivers, and the hosts that they may have."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sluice.cli.errors import USAGE, explain
from sluice.cli.main import app
from sluice.runtime import detached
from sluice.runtime.settings import get_settings
from sluice_hosts import placed


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An instance in which a driver runs, and no other host."""
    for name, value in {"INSTANCE": "test", "HOME": str(tmp_path)}.items():
        monkeypatch.setenv(f"SLUICE_{name}", value)
    get_settings.cache_clear()
    argv = [sys.executable, "-c", "import time; time.sleep(600)"]
    record = detached.start("speed_layer-2", argv, run=tmp_path / "run")
    yield tmp_path
    detached.stop(record, 0.0, run=tmp_path / "run")
    get_settings.cache_clear()


def sluice(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["jobs", *arguments])


def test_a_driver_is_listed_with_its_host(home: Path) -> None:
    listed = sluice("list", "--format", "csv")
    assert "speed_layer:2,speed_layer-2,local,local,alive," in listed.output


@pytest.mark.parametrize(
    ("unit", "host", "answer"),
    [
        ("speed_layer:9", "local", "there is no job 'speed_layer:9': there are speed_layer:2"),
        ("speed_layer:2", "h9", "'h9': no host with the role jobs in hosts.yaml; there are local"),
    ],
)
def test_a_wrong_name_is_answered_with_what_exists(home: Path, unit: str, host: str, answer: str) -> None:
    refused = sluice("move", unit, host)
    assert refused.exception is not None
    said = explain(refused.exception)
    assert said is not None
    assert (answer in said.message, said.code) == (True, USAGE)
    assert placed.read(get_settings()) == {}
