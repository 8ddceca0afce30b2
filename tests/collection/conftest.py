"""An instance in a temporary directory, with an inventory of its own, and the source of an edge agent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from tests.collection.follower import Follower, compile_drivers
from tests.collection.laid_down import lay_down
from tests.collection.one_host import emulated

INVENTORY = """
topic: h5_logs
front_ends:
  - host: web1
    files: ["{home}/frontends/web1/access.%Y-%m-%d.log"]
    channel: memory
    collectors: [collector1, collector2]
  - host: web2
    files: ["{home}/frontends/web2/access.%Y-%m-%d.log"]
    channel: file
    collectors: [collector2, collector1]
collectors:
  - name: collector1
  - name: collector2
"""

JAVA = """case $1 in -version) echo 'openjdk version "17.0.9"' ;; *) exec sleep 100000 ;; esac"""
FAR = """
  - {{host: far1, runs_on: h1, channel: file, files: ["{}/log/access.%Y-%m-%d.log"]}}
collectors:
"""

Write = Callable[[str], Path]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(instance="test", home=tmp_path, port_base=29_000)


@pytest.fixture
def inventory_text(settings: Settings) -> Write:
    """Writes the instance's inventory; the default one is there from the start."""

    def write(text: str) -> Path:
        path = settings.home / "collection.yaml"
        path.write_text(text)
        return path

    write(INVENTORY)
    return write


@pytest.fixture(scope="session")
def classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    return compile_drivers(tmp_path_factory.mktemp("classes"))


@pytest.fixture
def follower(tmp_path: Path, classes: str) -> Iterator[Follower]:
    made = Follower.made(tmp_path, classes)
    yield made
    made.close()


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
