"""A double of a kind of unit, and an instance whose hosts nobody needs to reach."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import sqlalchemy as sa

from sluice.runtime.sections import Placement
from sluice.runtime.settings import Settings
from sluice.storage.tables import units as book
from sluice.storage.tables.units import HostRow, UnitRow
from sluice_hosts import hosts
from sluice_hosts.hosts import FILE
from sluice_hosts.trust import broker, enrolment
from sluice_hosts.units.groups import failover_groups
from sluice_hosts.units.kinds import Log, MovedMeanwhile, ObservedUnit, Observer, Running
from sluice_lab.waiting import SECONDS
from tests.tasks.database import sqlite

HOST = "- {{name: {0}, address: 127.0.0.1, slots: {1}, roles: [edge, collector], ssh: {{user: me}}}}\n"


class Broken(RuntimeError):
    """What a mover raises that is told to fail."""


class Killed(BaseException):
    """kill -9 in the middle of a move: nothing is cleaned up."""


@dataclass
class DictionaryUnits:
    """A double of a kind: where a unit runs is an entry in `where`, and a move is an assignment.

    lists: as edges list collectors. fails, kills: units whose next move fails, or kills the process. broken:
    hosts on which nothing starts. waits: what the moves of units wait for. moved: all that arrived. belongs:
    where units are to be, by their whole names.
    """

    where: dict[str, str]
    lists: list[list[str]] = field(default_factory=list)
    fixed: set[str] = field(default_factory=set)
    fails: set[str] = field(default_factory=set)
    kills: set[str] = field(default_factory=set)
    moved: list[tuple[str, str]] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    recorded: list[dict[str, str]] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
    waits: dict[str, threading.Event] = field(default_factory=dict)
    belongs: dict[str, str] = field(default_factory=dict)
    name: str = "collector"

    def units(self, settings: Settings, places: int) -> list[Running]:
        together = failover_groups(self.lists, places)
        return [
            Running(
                f"{self.name}:{unit}",
                host,
                movable=unit not in self.fixed,
                group=together[unit].group if unit in together else None,
                application=together[unit].family if unit in together else None,
            )
            for unit, host in self.where.items()
        ] + [Running(f"{self.name}:here", "local")]

    def observer(self, settings: Settings) -> Observer:
        return lambda unit: ObservedUnit(os.getpid(), 10.0, 5.0)

    def belong(self, settings: Settings, hosts: Mapping[str, str]) -> None:
        self.recorded.append(dict(hosts))
        self.belongs |= hosts

    def written(self, settings: Settings) -> Mapping[str, str]:
        return self.belongs

    def move(self, settings: Settings, unit: str, host: str, log: Log) -> None:
        name = unit.partition(":")[2]
        self.belongs[unit] = host
        if self.where[name] == host:
            return
        if name in self.waits:
            self.begun.append(name)
            assert self.waits[name].wait(SECONDS)
        if self.belongs[unit] != host:
            raise MovedMeanwhile(f"{unit} belongs on {self.belongs[unit]} now")
        if host in self.broken:
            raise Broken(f"{host} has no Java")
        if name in self.fails:
            raise Broken("its channel does not drain")
        if name in self.kills:
            self.kills.remove(name)
            raise Killed
        self.where[name] = host
        self.moved.append((name, host))


@dataclass
class Instance:
    """An instance with hosts h1, h2, ... which answer, unless `silence` says so."""

    settings: Settings
    database: sa.Engine

    def hosts(self, **slots: int) -> None:
        """All hosts but local, whose only slot is taken, and their slots; they answered just now."""
        text = "- {name: local, address: 127.0.0.1, slots: 1}\n"
        text += "".join(HOST.format(name, count) for name, count in slots.items())
        (self.settings.home / FILE).write_text(text)
        self.rows = {name: HostRow(name, datetime.now(UTC), cores=4, core=1.0) for name in slots}
        self.rows["local"] = HostRow("local", datetime.now(UTC), cores=1, core=1.0)
        self._write({})

    def silence(self, host: str, seconds: float) -> None:
        """The host has not answered for so long."""
        since = datetime.now(UTC) - timedelta(seconds=seconds)
        self.rows[host] = HostRow(host, datetime.now(UTC), 4, 1.0, silent_since=since, why="no route")
        self._write(self._loads())

    def answers(self, host: str) -> None:
        self.rows[host] = HostRow(host, datetime.now(UTC), cores=4, core=1.0)
        self._write(self._loads())

    def loads(self, loads: Mapping[str, float]) -> None:
        """What the units of these names use, in reference cores."""
        self._write(loads)

    def _loads(self) -> dict[str, float]:
        with self.database.connect() as connection:
            rows = book.read_units(connection)
        return {name: row.smoothed["cpu"][0] for name, row in rows.items()}

    def _write(self, loads: Mapping[str, float]) -> None:
        units = [UnitRow(name, {"cpu": [load, 1.0]}, None) for name, load in loads.items()]
        with self.database.begin() as connection:
            book.write(connection, units, list(self.rows.values()))


@contextmanager
def made() -> Iterator[Instance]:
    """An instance in a temporary directory, whose hosts count as enrolled and whose tables need no server."""
    with TemporaryDirectory() as home, pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(enrolment, "state", lambda *_: "yes")
        monkeypatch.setattr(broker, "admitted", hosts.load)
        settings = Settings(
            instance="test", home=Path(home), network="host", placement=Placement(moves_an_hour=100)
        )
        yield Instance(settings, sqlite(threads=True))
