"""An instance in a temporary directory, with an inventory of its own, and the source of an edge agent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sluice.runtime.settings import Settings
from tests.collection.follower import Follower, compile_drivers

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
