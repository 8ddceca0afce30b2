"""Flume's agents as units. Collectors that say `runs_on: placed` can move; the other agents are fixed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sluice.collection import deploy, inventory, lifecycle, metrics
from sluice.collection.agent import LOCAL, Agent
from sluice.collection.errors import HostUnreachable
from sluice.collection.hosting import machine_of
from sluice.collection.inventory import PLACED, Inventory
from sluice.collection.machine import ProcessState
from sluice.runtime.settings import Settings
from sluice_hosts import hosts, placed
from sluice_hosts.agents import moving
from sluice_hosts.units.groups import failover_groups
from sluice_hosts.units.kinds import Log, ObservedUnit, Observer, Running


class Edges:
    """The agents that follow log files. A front-end's files are on its host, so it never moves."""

    name = "edge"

    def units(self, settings: Settings, places: int) -> list[Running]:
        found = _inventory(settings)
        return [Running(f"{self.name}:{each.host}", each.runs_on) for each in found.front_ends]

    def observer(self, settings: Settings) -> Observer:
        return _observer(settings)

    def belong(self, settings: Settings, hosts: Mapping[str, str]) -> None:
        raise AssertionError(f"{', '.join(hosts)} are fixed")

    def written(self, settings: Settings) -> Mapping[str, str]:
        return {}

    def move(self, settings: Settings, unit: str, host: str, log: Log) -> None:
        raise AssertionError(f"{unit} is fixed")


class Collectors:
    """The agents that gather what edges send. A slot is one agent's."""

    name = "collector"

    def units(self, settings: Settings, places: int) -> list[Running]:
        """All collectors: where they are deployed, or else where they belong."""
        found = _inventory(settings)
        belongs = placed.read(settings)
        there = {agent.name: agent.runs_on for agent in deploy.agents(settings)}
        together = failover_groups([each.collectors for each in found.front_ends], places)
        units = []
        for each in found.collectors:
            movable, name = each.runs_on == PLACED, placed.unit(each.name)
            host = there.get(each.name) or (belongs.get(name, LOCAL) if movable else each.runs_on)
            of = together.get(each.name)
            units.append(
                Running(
                    name,
                    host,
                    movable=movable,
                    group=of.group if of else None,
                    application=of.family if of else None,
                )
            )
        return units

    def observer(self, settings: Settings) -> Observer:
        return _observer(settings)

    def belong(self, settings: Settings, hosts: Mapping[str, str]) -> None:
        """A placement on a host without the role makes the inventory faulty, and holds up all moves."""
        placed.update(settings, hosts)

    def written(self, settings: Settings) -> Mapping[str, str]:
        return placed.read(settings)

    def move(self, settings: Settings, unit: str, host: str, log: Log) -> None:
        moving.move(settings, unit.partition(":")[2], host, log)


_read: dict[Path, tuple[tuple[int, ...], Inventory]] = {}


def _inventory(settings: Settings) -> Inventory:
    """The inventory, read again when it or the list of hosts was written: thousands of edges take a second.

    Without placements, because one that may no longer be is a reason to move, and not to give up.
    """
    paths = (inventory.path_of(settings), hosts.path_of(settings))
    stamp = tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in paths)
    before = _read.get(paths[0])
    if before is None or before[0] != stamp:
        before = _read[paths[0]] = (stamp, inventory.load(settings, placed={}))
    return before[1]


def _observer(settings: Settings) -> Observer:
    agents = {agent.name: agent for agent in deploy.agents(settings)}

    def observe(unit: str) -> ObservedUnit | None:
        agent = agents.get(unit.partition(":")[2])
        pid = _pid(settings, agent) if agent else 0
        if agent is None or not pid:
            return None
        try:
            counted = lifecycle.counters(settings, agent)
        except HostUnreachable:
            raise
        except metrics.MetricsUnreachable:  # it starts, say
            return ObservedUnit(pid)
        return ObservedUnit(pid, counted.channel.get("EventPutSuccessCount"), counted.fill)

    return observe


def _pid(settings: Settings, agent: Agent) -> int:
    """The number of the agent's process on its host; 0 if it does not run."""
    now = machine_of(settings, agent).status(agent)
    return now.pid if now.state == ProcessState.ALIVE else 0
