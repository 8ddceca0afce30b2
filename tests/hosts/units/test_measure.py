"""Loads are of one process, without its start, and survive; silence is counted from the last answer."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from sluice.runtime.sections import Placement
from sluice.storage.tables import units as book
from sluice.storage.tables.units import HostRow, UnitRow
from sluice_hosts.units import measure, smoothing, speed
from sluice_hosts.units.measure import HostLook, Reading, host_row, silent_since, unit_row
from sluice_hosts.units.processes import HostReading
from tests.hosts.units.double import DictionaryUnits, Instance

AT = datetime(2026, 11, 25, 12, tzinfo=UTC)
GAP = timedelta(seconds=120)
FIRST = Reading(at=1_000.0, process="7.1", cpu=50.0, age=100.0, events=1_000.0, fill=10.0)
LATER = replace(FIRST, at=1_100.0, cpu=75.0, age=200.0, events=3_000.0, fill=20.0)


def value(row: UnitRow, name: str) -> float | None:
    return smoothing.read(row.smoothed).get(name, smoothing.Mean()).value


def after(*readings: Reading, core: float = 1.0) -> UnitRow:
    row = UnitRow("collector:c1")
    for each in readings:
        row = unit_row(row, each, core, half_life=300.0)
    return row


def test_the_load_is_cpu_time_over_time_on_the_clock_in_reference_cores() -> None:
    row = after(FIRST, LATER, core=2.0)
    assert value(row, "cpu") == pytest.approx(0.5)
    assert value(row, "events") == pytest.approx(20.0)
    assert value(row, "fill") == pytest.approx(20.0)


def test_the_start_of_a_process_is_no_load_and_a_new_process_begins_again() -> None:
    assert value(after(replace(FIRST, age=5.0), LATER), "cpu") is None
    other = replace(LATER, process="9.5", at=1_200.0, cpu=1.0, age=90.0)
    restarted = after(FIRST, LATER, other)
    assert value(restarted, "cpu") == pytest.approx(0.25)
    assert restarted.reading == vars(replace(other, begun_at=900.0, warm_at=1_200.0))


def test_when_a_unit_ran_for_a_while_on_its_host_outlives_its_process() -> None:
    begins = replace(FIRST, process="9.5", at=1_200.0, age=5.0)
    young = after(FIRST, begins).reading
    assert young
    assert (young["begun_at"], young["warm_at"]) == (900.0, 1_000.0)
    elsewhere = after(FIRST, replace(begins, host="h2")).reading
    assert elsewhere
    assert (elsewhere["begun_at"], elsewhere["warm_at"]) == (1_195.0, None)


def test_without_a_reading_the_load_stays() -> None:
    row = after(FIRST, LATER)
    assert unit_row(row, None, 1.0, 300.0) is row


def test_what_is_no_unit_counts_for_its_host() -> None:
    def at(seconds: float, busy: float, **readings: Reading) -> HostLook:
        return HostLook(AT + timedelta(seconds=seconds), HostReading(4, busy, {}), readings)

    unit = {"collector:c1": after(FIRST)}
    first = host_row("h1", None, at(0, 500.0, **{"collector:c1": FIRST}), {}, Placement())
    row = host_row("h1", first, at(100, 725.0, **{"collector:c1": LATER}), unit, Placement())
    others = smoothing.read(row.smoothed)["others"].value
    assert others == pytest.approx(2.0)  # 225 s were used, 25 of them by the unit, in 100 s
    booted = host_row("h1", row, at(200, 3.0), unit, Placement())
    assert smoothing.read(booted.smoothed)["others"].value == pytest.approx(2.0)


def test_a_host_is_silent_since_it_last_answered_if_looks_followed_each_other() -> None:
    silent = HostLook(AT, silent=True)
    answered = HostRow("h1", AT - timedelta(seconds=20))
    assert silent_since(answered, silent, GAP) == AT - timedelta(seconds=20)
    still = replace(answered, silent_since=AT - timedelta(seconds=50))
    assert silent_since(still, silent, GAP) == AT - timedelta(seconds=50)
    assert silent_since(still, HostLook(AT), GAP) is None
    long_ago = replace(still, looked_at=AT - timedelta(days=1))
    assert silent_since(long_ago, silent, GAP) == AT
    assert silent_since(None, silent, GAP) == AT


def test_a_command_here_that_hangs_takes_no_other_host_from_the_look(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance.hosts(h1=8)

    def hangs(*command: str, **_: object) -> None:
        raise subprocess.TimeoutExpired(command, 10.0)

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "run", hangs)
        measure.look(instance.settings, instance.database, [DictionaryUnits({"c1": "h1"})])
    with instance.database.connect() as connection:
        hosts = book.read_hosts(connection)
    assert "sh did not end within" in hosts["local"].why
    assert "h1" in hosts


def test_a_look_keeps_what_it_found_and_forgets_what_is_gone(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speed, "measure", lambda _: 1.25)
    units = DictionaryUnits({"c1": "local", "c2": "local"})
    measure.look(instance.settings, instance.database, [units])
    del units.where["c2"]
    measure.look(instance.settings, instance.database, [units])
    with instance.database.connect() as connection:
        rows, hosts = book.read_units(connection), book.read_hosts(connection)
    assert set(rows) == {"collector:c1", "collector:here"}
    assert rows["collector:c1"].reading
    assert rows["collector:c1"].reading["events"] == 10.0
    assert (hosts["local"].core, hosts["local"].silent_since, hosts["local"].why) == (1.25, None, "")
    assert hosts["local"].cores
