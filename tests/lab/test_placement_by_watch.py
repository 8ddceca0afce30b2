"""What the DAG `placement` runs moves the laboratory's units: the same watch, planner and mover.

Units are a double's in the paper's experiment. In the last test hosts are real SSH servers, and a stand-in is
Flume. `sluice lab placement --quick` does the experiment with Flume itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest
import sqlalchemy as sa

from sluice.collection import deploy
from sluice.placement.measures import load_spread
from sluice.runtime.sections import Placement
from sluice.runtime.settings import Settings
from sluice.storage.tables import units as book
from sluice_hosts.trust import broker
from sluice_hosts.units import measure
from sluice_hosts.units.catalogue import KINDS
from sluice_lab.placement.computed import PLACERS
from sluice_lab.placement.live import scenarios, watching
from sluice_lab.placement.live.placing import Placing, Timed, prepare, with_timed
from sluice_lab.placement.live.scenarios import SCENARIOS, application
from sluice_lab.processes import LaboratoryFailed
from sluice_lab.waiting import until
from tests.hosts.agents.test_moving import Hosts, running, two  # noqa: F401 - a fixture
from tests.hosts.units.double import DictionaryUnits, Instance, made
from tests.tasks.database import sqlite

BUSY, QUIET = 0.3, 0.1


@pytest.fixture
def five(monkeypatch: pytest.MonkeyPatch) -> Iterator[Instance]:
    """The paper's hosts, after the last two have joined. Nobody is asked what is there."""
    monkeypatch.setattr(measure, "look", lambda *_: None)
    with made() as instance:
        instance.hosts(**dict.fromkeys(scenarios.hosts(), scenarios.SLOTS))
        yield instance


def placed(instance: Instance, name: str) -> DictionaryUnits:
    """The scenario's units as they are before the DAG begins; the instance has the scenario's settings."""
    scenario = SCENARIOS[name]
    instance.settings = instance.settings.model_copy(update={"placement": scenarios.placement(scenario)})
    first = scenarios.cluster(scenarios.hosts()[: scenario.first], {})
    lists = [list(units) for _, units in groupby(scenarios.units(), application)]
    return DictionaryUnits(dict(PLACERS[scenario.start](first)), lists)


def slots(units: DictionaryUnits) -> list[int]:
    return [list(units.where.values()).count(host) for host in scenarios.hosts()]


@pytest.mark.parametrize(
    ("name", "start", "moves"), [("low", [4, 3, 3, 0, 0], 4), ("default", [5, 4, 1, 0, 0], 5)]
)
def test_the_watch_evens_the_papers_hosts_out_by_slots(
    five: Instance, name: str, start: list[int], moves: int
) -> None:
    units = placed(five, name)
    assert slots(units) == start
    with Placing(five.settings, five.database, (units,), print) as placing:
        placing.settle()
    assert slots(units) == [2] * 5
    assert len(units.moved) == moves


@pytest.mark.slow
def test_the_watch_goes_by_load_where_one_unit_is_busy(five: Instance) -> None:
    units = placed(five, "uneven")
    loads = dict.fromkeys(scenarios.units(), QUIET) | {scenarios.BUSY_UNIT: BUSY}
    five.loads({f"collector:{unit}": load for unit, load in loads.items()})
    before = load_spread(scenarios.cluster(scenarios.hosts(), units.where, loads), units.where)
    with Placing(five.settings, five.database, (units,), print) as placing:
        placing.settle()
    after = load_spread(scenarios.cluster(scenarios.hosts(), units.where, loads), units.where)
    assert after < before / 2


def test_a_placement_that_moves_nothing_ends_the_run(five: Instance) -> None:
    units = placed(five, "low")
    units.where = dict(zip(scenarios.units(), scenarios.hosts() * 2, strict=True))
    with (
        pytest.raises(LaboratoryFailed, match=r"^after 0\.5 s the placement has moved nothing"),
        Placing(five.settings, five.database, (units,), print) as placing,
    ):
        placing.settle(0.5)
    assert units.moved == []


class TestWithHosts:
    """Two hosts, of which the first is far too slow for the one unit."""

    pytestmark = pytest.mark.slow

    @pytest.fixture
    def settings(self, tmp_path: Path) -> Settings:
        speeds = {"local": 0.01, "h1": 0.01, "h2": 4.0}
        placement = Placement(speeds=speeds, hold_seconds=0.0, half_life_seconds=1e9)
        ports = 31_000 + os.getpid() % 25 * 1_000  # those of other tests' stand-ins are below
        return Settings(instance="test", home=tmp_path, port_base=ports, network="host", placement=placement)

    @pytest.fixture
    def database(self) -> sa.Engine:
        return sqlite(threads=True)

    def test_a_move_of_the_watch_is_timed(
        self,
        settings: Settings,
        database: sa.Engine,
        two: Hosts,  # noqa: F811
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(broker, "admitted", lambda _: list(two))
        monkeypatch.setattr(watching, "MOST_SECONDS", 1.0)  # a stand-in takes no blocks
        prepare(settings, database, KINDS)
        timed = Timed()
        with Placing(settings, database, with_timed(timed), print) as placing:
            placing.settle()
        (moved,) = timed.moved()
        assert (moved.unit, moved.source, moved.target) == ("collector1", "h1", "h2")
        assert moved.began < moved.ended
        assert moved.taken.pause is None
        assert deploy.agent(settings, "collector1").runs_on == "h2"
        until(lambda: set(running(two, settings)) == {"h2"}, what="it runs on h2 alone")
        prepare(settings, database, KINDS)
        with database.connect() as connection:
            assert not book.read_units(connection)
            assert not book.last_moves(connection, book.KEPT)
            assert all(row.core for row in book.read_hosts(connection).values())
