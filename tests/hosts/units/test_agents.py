"""Collectors as units, over two hosts and with the real mover; their program is a stand-in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import sqlalchemy as sa
import yaml

from sluice.collection import deploy, inventory
from sluice.runtime.sections import Placement
from sluice.runtime.settings import Settings
from sluice.storage.tables import units as book
from sluice_hosts import hosts, placed
from sluice_hosts.agents import remnants
from sluice_hosts.units import measure, moves
from sluice_hosts.units.agents import Collectors, Edges
from sluice_hosts.units.catalogue import KINDS
from sluice_hosts.units.view import View, view
from sluice_lab.waiting import until
from tests.hosts.agents.test_moving import Hosts, running, two  # noqa: F401 - two is a fixture
from tests.tasks.database import sqlite

pytestmark = [pytest.mark.slow, pytest.mark.long]

UNIT = "collector:collector1"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A silent host is soon away, and local, where the program would be Flume, is too slow for anything."""
    placement = Placement(silent_seconds=1.0, speeds={"local": 0.01, "h1": 4.0, "h2": 4.0})
    ports = 31_000 + os.getpid() % 25 * 1_000  # those of other tests' stand-ins are below
    return Settings(instance="test", home=tmp_path, port_base=ports, network="host", placement=placement)


@pytest.fixture
def database() -> sa.Engine:
    return sqlite(threads=True)


def looked(settings: Settings, database: sa.Engine) -> View:
    measure.look(settings, database, KINDS)
    return view(settings, database, KINDS)


def test_agents_are_units_and_their_processes_are_read_on_their_hosts(
    settings: Settings,
    database: sa.Engine,
    two: Hosts,  # noqa: F811
) -> None:
    found = looked(settings, database)
    shown = {each.running.name: (each.running.host, each.running.movable) for each in found.units}
    assert shown == {UNIT: ("h1", True), "edge:far1": ("h2", False)}
    assert {host.name: host.state for host in found.hosts} == {"local": "open", "h1": "open", "h2": "open"}
    with database.connect() as connection:
        rows = book.read_units(connection)
    pids = {name: row.reading["process"].partition(".")[0] for name, row in rows.items() if row.reading}
    assert pids == {
        UNIT: str(running(two, settings)["h1"]),
        "edge:far1": str(running(two, settings, "far1")["h2"]),
    }


def test_a_collector_of_a_host_that_is_off_starts_elsewhere_and_is_not_doubled_when_it_is_back(
    settings: Settings,
    database: sa.Engine,
    two: Hosts,  # noqa: F811
) -> None:
    looked(settings, database)
    two["h1"].switch_off()
    until(lambda: looked(settings, database).states["h1"].state == "away")
    said: list[str] = []
    (move,) = moves.apply(settings, database, KINDS, said.append)
    assert (move.unit, move.source, move.target) == (UNIT, None, "h2")
    assert "h1 has not answered since" in said[0]
    assert deploy.agent(settings, "collector1").runs_on == "h2"
    assert placed.read(settings) == {UNIT: "h2"}
    assert [agent.runs_on for agent in remnants.known(settings)] == ["h1"]
    two["h1"].switch_on()
    assert looked(settings, database).states["h1"].state == "open"

    def drained() -> bool:  # what was left starts once more, to be drained
        deploy.ensure(settings)
        return not remnants.known(settings)

    until(drained)
    assert running(two, settings).keys() == {"h2"}
    (unit,) = (each.running for each in view(settings, database, KINDS).units if each.running.movable)
    assert unit.host == "h2"


def test_a_host_is_emptied_by_taking_its_role_away(
    settings: Settings,
    database: sa.Engine,
    two: Hosts,  # noqa: F811
) -> None:
    path = settings.home / hosts.FILE
    listed = yaml.safe_load(path.read_text())
    path.write_text(
        yaml.safe_dump([each | ({"roles": ["edge"]} if each["name"] == "h1" else {}) for each in listed])
    )
    looked(settings, database)
    (move,) = moves.apply(settings, database, KINDS, lambda _: None)
    assert move.target == "h2"
    assert running(two, settings).keys() == {"h2"}
    assert remnants.known(settings) == []
    assert inventory.load(settings)


def test_the_inventory_is_read_again_when_it_was_written(settings: Settings) -> None:
    def units() -> list[tuple[str, bool, str | None]]:
        found = [*Collectors().units(settings, 3), *Edges().units(settings, 3)]
        return [(each.name, each.movable, each.group) for each in found]

    path = settings.home / "collection.yaml"
    front_end = "front_ends: [{host: web1, files: ['{home}/web1/access.%Y-%m-%d.log']}]\n"
    path.write_text(f"topic: logs\n{front_end}collectors: [{{name: c1}}, {{name: c2, runs_on: placed}}]\n")
    assert units() == [
        ("collector:c1", False, "c1, c2"),
        ("collector:c2", True, "c1, c2"),
        ("edge:web1", False, None),
    ]
    path.write_text(f"topic: logs\n{front_end}collectors: [{{name: c1}}]\n")
    os.utime(path, (1, 1))
    assert units() == [("collector:c1", False, None), ("edge:web1", False, None)]
