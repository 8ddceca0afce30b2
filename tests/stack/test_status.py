from __future__ import annotations

import json
from pathlib import Path

from sluice.runtime import detached
from sluice.runtime.settings import Settings
from sluice.stack import status
from sluice.stack.networking import network


def test_the_gateway_is_shown_and_the_files_beside_its_record_are_not(tmp_path: Path) -> None:
    settings = Settings(instance="test", home=tmp_path / "test")
    apart = network.folder(settings)
    apart.mkdir()
    (apart / network.ORDERS).write_text(json.dumps({"instance": "test", "doors": []}))
    assert status.jobs(settings) == []
    record = detached.ProcessRecord(network.GATEWAY, 0, 0, "", "token", [], "2026-01-01T00:00:00Z")
    (apart / f"{network.GATEWAY}.json").write_text(json.dumps(vars(record)))
    assert [(line.name, line.state) for line in status.jobs(settings)] == [(network.GATEWAY, "dead")]
