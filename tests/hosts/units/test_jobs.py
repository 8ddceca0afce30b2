"""Archivers and drivers as units: over a real SSH server they are measured, and moved by the placement."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from sluice.runtime.files import write_whole
from sluice.runtime.sections import Placement
from sluice.runtime.settings import Settings
from sluice.storage.tables import units as book
from sluice_hosts import hosts
from sluice_hosts.emulated.host import EmulatedHost
from sluice_hosts.jobs import moving, places
from sluice_hosts.units import measure, moves, proposals
from sluice_hosts.units.explain import explain
from sluice_hosts.units.jobs import Jobs
from sluice_hosts.units.kinds import MovedMeanwhile
from sluice_hosts.units.view import View, view
from sluice_lab.waiting import until
from tests.hosts.jobs.conftest import machine, root  # noqa: F401 - fixtures
from tests.hosts.jobs.conftest import settings as plain  # noqa: F401
from tests.hosts.jobs.test_moving import supervised, watched  # noqa: F401 - one is a fixture
from tests.processes import command_line
from tests.tasks.database import sqlite

pytestmark = [pytest.mark.slow, pytest.mark.long]

KINDS = [Jobs(job) for job in places.JOBS]


@pytest.fixture
def settings(plain: Settings) -> Settings:  # noqa: F811
    """This machine is too slow for anything, so what may move does; there is one move an hour."""
    placement = Placement(silent_seconds=1.0, speeds={"local": 0.01, "h1": 4.0}, moves_an_hour=1)
    return plain.model_copy(update={"placement": placement})


@pytest.fixture
def database() -> sa.Engine:
    return sqlite(threads=True)


def looked(settings: Settings, database: sa.Engine) -> View:
    measure.look(settings, database, KINDS)
    return view(settings, database, KINDS)


def where(seen: View) -> dict[str, str]:
    return {each.running.name: each.running.host for each in seen.units}


def test_a_job_that_somebody_else_moved_meanwhile_has_not_failed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def moved(*_: object) -> None:
        raise moving.JobMovedMeanwhile("archiver:1 belongs on h2 now")

    monkeypatch.setattr(moving, "move", moved)
    with pytest.raises(MovedMeanwhile, match="belongs on h2 now"):
        KINDS[0].move(settings, "archiver:1", "h1", print)


@pytest.mark.usefixtures("supervised")
def test_without_another_host_there_are_no_such_units(settings: Settings, database: sa.Engine) -> None:
    assert looked(settings, database).units == ()


@pytest.mark.usefixtures("supervised")
def test_an_archiver_is_moved_measured_there_and_comes_home_from_a_host_without_power(
    settings: Settings,
    database: sa.Engine,
    machine: EmulatedHost,  # noqa: F811
) -> None:
    assert where(looked(settings, database)) == {"archiver:1": "local"}
    proposal = proposals.propose(settings, database, KINDS)
    (said,) = explain(proposal, {}, "archiver:1")
    assert said.moves_to == "h1", said.text
    moves.apply(settings, database, KINDS, print)
    assert where(looked(settings, database)) == {"archiver:1": "h1"}
    with database.connect() as connection:
        reading = book.read_units(connection)["archiver:1"].reading
    (there,) = [each.pid for each in machine.processes() if "jobs/archiver.py" in command_line(each)]
    assert reading is not None
    assert reading["process"].partition(".")[0] == str(there)

    machine.switch_off()
    until(lambda: looked(settings, database).states["h1"].state == "away", what="h1 is away")
    (move,) = moves.apply(settings, database, KINDS, print)
    assert (move.source, move.target) == (None, "local"), "such a move needs no budget"
    assert where(looked(settings, database)) == {"archiver:1": "local"}


def test_a_driver_is_a_unit_unless_its_spark_is_a_cluster(
    settings: Settings,
    machine: EmulatedHost,  # noqa: F811
) -> None:
    said: list[str] = []
    with watched(settings, "speed_layer"):
        until(lambda: moving.arrived(settings, "speed_layer", "local"), what="it runs")
        drivers = Jobs("speed_layer")
        drivers.move(settings, "speed_layer:1", "h1", said.append)
        (unit,) = drivers.units(settings, 2)
        assert (unit.name, unit.host, unit.movable, unit.role) == ("speed_layer:1", "h1", True, "jobs")
        observed = drivers.observer(settings)(unit.name)
        assert observed
        assert observed.pid in [each.pid for each in machine.processes()]
        spark = settings.spark.model_copy(update={"master": "yarn"})
        (fixed,) = drivers.units(settings.model_copy(update={"spark": spark}), 2)
        assert not fixed.movable
    assert said == ["speed_layer:1: runs on h1"]


@pytest.mark.usefixtures("supervised")
def test_an_archiver_leaves_a_host_that_lost_the_role(
    settings: Settings,
    database: sa.Engine,
    machine: EmulatedHost,  # noqa: F811
    root: Path,  # noqa: F811
) -> None:
    looked(settings, database)
    moves.apply(settings, database, KINDS, print)
    path = settings.home / hosts.FILE
    write_whole(path, path.read_text().replace(f"roles: [jobs], release: {root}, ", ""))
    assert places.belongs_on(settings, "archiver") == "local"
    until(lambda: places.runs_on(settings, "archiver") == "local", what="it comes home")
    assert not [each for each in machine.processes() if "jobs/archiver.py" in command_line(each)]
    assert where(looked(settings, database)) == {}
