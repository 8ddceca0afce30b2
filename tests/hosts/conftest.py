"""An instance with one other host, an emulated one, and a front-end there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.collection import deploy
from sluice.collection.agent import Agent
from sluice.runtime.settings import Settings
from sluice_hosts import hosts
from sluice_hosts.agents import bundle
from sluice_hosts.emulated.host import EmulatedHost
from sluice_hosts.links import ssh
from sluice_hosts.trust import enrolment
from tests.collection.conftest import INVENTORY, inventory_text, settings
from tests.hosts.laid_down import lay_down
from tests.hosts.one_host import emulated

__all__ = ["inventory_text", "settings"]

JAVA = """case $1 in -version) echo 'openjdk version "17.0.9"' ;; *) exec sleep 100000 ;; esac"""
FAR = """
  - {{host: far1, runs_on: h1, channel: file, files: ["{}/log/access.%Y-%m-%d.log"]}}
collectors:
"""


def quick_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few and small jars to copy, and a host that was away is asked again at once."""
    (tmp_path / "lib" / "flume").mkdir(parents=True)
    for name in (bundle.STAMP, "one.jar"):
        (tmp_path / "lib" / "flume" / name).write_text(str(tmp_path))
    monkeypatch.setattr(bundle, "LIB", tmp_path / "lib")
    monkeypatch.setattr(ssh, "AWAY_SECONDS", 0.0)


@pytest.fixture
def machine(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EmulatedHost]:
    """An enrolled host with a front-end, far1, in the inventory; few and small jars."""
    quick_hosts(tmp_path, monkeypatch)
    with emulated(settings, tmp_path / "h1") as made:
        made.program("java", JAVA)
        (made.home / "log").mkdir()
        host = hosts.load(settings)["h1"]
        enrolment.enrol(settings, host, ssh.host_key(host.address, made.port)[1])
        text = INVENTORY.replace("\ncollectors:\n", FAR.format(made.home))
        (settings.home / "collection.yaml").write_text(text)
        lay_down(settings)
        yield made


@pytest.fixture
def far(settings: Settings, machine: EmulatedHost) -> Agent:
    return deploy.agent(settings, "far1")
