"""An edge on another host is drained, goes back in its files and goes on; a host that is away does not.

Its program is a stand-in (`tests.hosts.agents.stand_in`). It is about `sluice.collection.deploy` and
`sluice_hosts.agents.ssh_machine`.
"""

from __future__ import annotations

import json
from pathlib import PurePath

import pytest

from sluice.collection import deploy
from sluice.collection.hosting import machine_of
from sluice.runtime.settings import Settings
from tests.hosts.agents.test_moving import Hosts, two

pytestmark = pytest.mark.slow

__all__ = ["two"]


def test_an_edge_on_another_host_sends_again(settings: Settings, two: Hosts) -> None:
    far = deploy.agent(settings, "far1")
    machine = machine_of(settings, far)
    (pattern,) = far.patterns(settings.home)
    log = pattern.directory / "access.2026-01-02.log"
    log.write_text("a line\n" * 10)
    state = PurePath(machine.files("far1").folder)
    entry = {"inode": log.stat().st_ino, "pos": 70, "file": str(log)}
    (log.parent / state / "position.json").write_text(json.dumps([entry]))
    before, said = machine.status(far).pid, list[str]()
    assert deploy.send_again(settings, {"far1": {str(log): 14}}, said.append) == {}
    assert f"far1: {log} will be read again from byte 14 (was 70)" in said
    assert machine.read_to(far) == {str(log): 14}
    now = machine.status(far)
    assert (now.state, now.held, now.pid == before) == ("alive", False, False)

    two["h2"].switch_off()
    failed = deploy.send_again(settings, {"far1": {str(log): 0}, "gone1": {}}, said.append)
    assert failed.keys() == {"far1"}
    assert said[-1].startswith("far1 cannot send again now: host h2")
