from __future__ import annotations

import json
from pathlib import Path

import pytest

from sluice.runtime import detached
from sluice.runtime.holds import Hold, hold
from sluice.runtime.settings import Settings
from sluice.stack import status
from sluice.stack.networking import network
from tests.stack.file_systems import FakeDisks


def test_the_gateway_is_shown_and_the_files_beside_its_record_are_not(tmp_path: Path) -> None:
    settings = Settings(instance="test", home=tmp_path / "test")
    apart = network.folder(settings)
    apart.mkdir()
    (apart / network.ORDERS).write_text(json.dumps({"instance": "test", "doors": []}))
    assert status.jobs(settings) == []
    record = detached.ProcessRecord(network.GATEWAY, 0, 0, "", "token", [], "2026-01-01T00:00:00Z")
    (apart / f"{network.GATEWAY}.json").write_text(json.dumps(vars(record)))
    assert [(line.name, line.state) for line in status.jobs(settings)] == [(network.GATEWAY, "dead")]


def test_disks_are_shown_with_what_they_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, found = Settings(instance="test", home=tmp_path), FakeDisks(monkeypatch)
    found.are(home=40, kafka=0.9, datanode=0.9, postgres=0.1)
    assert {line.folders[0]: line.problem for line in status.disk_lines(settings)} == {
        "home": "",
        "data/kafka": "nearly full: intake held",
        "data/datanode": "nearly full: intake and layers held",
        "data/postgres": "full: no daemon that needs it is started",
    }
    assert status.held(settings) == {}
    hold(tmp_path, Hold.INTAKE, "no space")
    assert status.held(settings) == {"intake": "no space"}
