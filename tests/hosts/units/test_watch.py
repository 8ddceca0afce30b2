"""The watch plans at once when a host goes, holds until loads are known, and outlives faults."""

from __future__ import annotations

import threading

import pytest

from sluice.storage.tables import alerts
from sluice_hosts.units import carrying, measure, mover, watch
from sluice_hosts.units.kinds import Log
from sluice_hosts.units.watch import UnitWatch
from sluice_lab.waiting import until
from tests.hosts.units.double import DictionaryUnits, Instance


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is asked: what the test wrote is what a look found."""
    monkeypatch.setattr(measure, "look", lambda *_: None)


def made(instance: Instance, units: DictionaryUnits) -> UnitWatch:
    return UnitWatch(instance.settings, instance.database, [units])


def beat(watching: UnitWatch, log: Log) -> None:
    """A beat, and the end of what it began."""
    watching.beat(log)
    watching.mover.wait()


def open_alerts(instance: Instance) -> list[str]:
    return [each.message for each in alerts.open_alerts(instance.database, carrying.SOURCE)]


def test_it_evens_out_only_when_all_loads_are_known(
    instance: Instance, looked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "PLAN_SECONDS", 0.0)
    instance.hosts(h1=8, h2=8)
    units = DictionaryUnits({"c1": "h1", "c2": "h1"})
    watching, said = made(instance, units), list[str]()
    beat(watching, said.append)
    assert units.moved == []
    instance.loads({"collector:c1": 1.0, "collector:c2": 1.0})
    beat(watching, said.append)
    assert len(units.moved) == 1
    assert any(" moves from h1 to h2: " in line for line in said)


def test_what_is_never_measured_holds_it_for_as_long_as_the_setting_says_only(
    instance: Instance, looked: None
) -> None:
    instance.settings.placement.hold_seconds = 0.0
    instance.hosts(h1=8, h2=8)
    units = DictionaryUnits({"c1": "h1", "c2": "h1"})
    beat(made(instance, units), lambda _: None)
    assert len(units.moved) == 1


def test_a_silent_host_is_an_alert_and_its_units_go_at_once_after_the_setting(
    instance: Instance, looked: None
) -> None:
    instance.hosts(h1=8, h2=8)
    units = DictionaryUnits({"c1": "h1", "c2": "h2"})
    watching, said = made(instance, units), list[str]()
    beat(watching, said.append)
    instance.silence("h1", 5)
    beat(watching, said.append)
    assert units.moved == []
    assert "host h1 has not answered since" in open_alerts(instance)[0]
    instance.silence("h1", 40)
    beat(watching, said.append)
    assert units.where == {"c1": "h2", "c2": "h2"}
    instance.answers("h1")
    beat(watching, said.append)
    assert open_alerts(instance) == []
    assert "over: host h1 is silent" in said


def test_hosts_are_looked_at_while_a_unit_moves_and_a_dead_one_is_emptied_meanwhile(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = list[int]()
    monkeypatch.setattr(measure, "look", lambda *_: looks.append(1))
    instance.settings.placement.hold_seconds = 0.0
    instance.hosts(h1=8, h2=8, h3=8)
    units = DictionaryUnits({"c1": "h1", "c2": "h1", "c3": "h1", "c4": "h1", "c5": "h3"})
    units.waits = {name: threading.Event() for name in ("c1", "c2", "c3", "c4")}
    watching = made(instance, units)
    watching.beat(lambda _: None)
    until(lambda: len(units.begun) == 1, what="a unit of h1 moves, and takes long")
    instance.silence("h3", 40)
    watching.beat(lambda _: None)
    assert len(looks) == 2
    until(lambda: units.where["c5"] != "h3", what="c5 is elsewhere")
    assert not [name for name, _ in units.moved if name != "c5"]
    watching.stop()
    for event in units.waits.values():
        event.set()
    watching.mover.wait()


def test_a_failed_replacement_goes_on_to_another_host_without_a_beat(
    instance: Instance, looked: None
) -> None:
    instance.hosts(h1=8, h2=8, h3=8)
    units = DictionaryUnits({"c1": "h1", "c2": "h3", "c3": "h3"}, broken={"h2"})
    instance.silence("h1", 40)
    beat(made(instance, units), lambda _: None)
    assert units.moved == [("c1", "h3")]


def test_while_another_process_moves_it_looks_on_and_plans_at_the_next_beat(
    instance: Instance, looked: None
) -> None:
    instance.hosts(h1=8, h2=8)
    units = DictionaryUnits({"c1": "h1"})
    instance.silence("h1", 40)
    watching, said = made(instance, units), list[str]()
    with mover.locked(instance.settings):
        for _ in range(2):
            beat(watching, said.append)
    assert sum("another process moves units" in line for line in said) == 1
    beat(watching, said.append)
    assert units.moved == [("c1", "h2")]


def test_a_failed_move_is_told_and_tried_again_after_a_while(
    instance: Instance, looked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance.hosts(h1=8, h2=8)
    units = DictionaryUnits({"c1": "h1", "c2": "h2"}, fails={"c1"})
    watching, said = made(instance, units), list[str]()
    instance.silence("h1", 40)
    beat(watching, said.append)
    assert "could not move from h1 to h2: its channel does not drain" in said[-1]
    units.fails.clear()
    beat(watching, said.append)
    assert units.moved == [], "not at each beat"
    monkeypatch.setattr(watch, "PLAN_SECONDS", 0.0)
    beat(watching, said.append)
    assert units.moved == [("c1", "h2")]


def test_a_fault_is_told_once_and_is_an_alert_until_it_is_over(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance.hosts(h1=8)
    watching, said = made(instance, DictionaryUnits({})), list[str]()

    def faulty(*_: object) -> None:
        raise ValueError("hosts.yaml: not YAML")

    monkeypatch.setattr(measure, "look", faulty)
    for _ in range(2):
        beat(watching, said.append)
    assert said == ["cannot place units: hosts.yaml: not YAML"]
    assert open_alerts(instance) == ["cannot place units: hosts.yaml: not YAML"]
    monkeypatch.setattr(measure, "look", lambda *_: None)
    beat(watching, said.append)
    assert said[1:] == ["units are placed again"]
    assert open_alerts(instance) == []
