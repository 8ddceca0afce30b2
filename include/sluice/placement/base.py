"""The input of a plan (hosts, units, and where they run) and what a plan says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple


class ClusterRefused(ValueError):
    """A cluster that contradicts itself; the message has a line for each problem."""


@dataclass(frozen=True)
class HostSlots:
    """A machine with slots. speed: load that it can work off; None if nobody measured it."""

    name: str
    slots: int
    speed: float | None = None


@dataclass(frozen=True)
class Unit:
    """What is placed as a whole: a collector, an archiver, a driver.

    load: what it asks of its host, in the unit of the hosts' speeds; None if nobody measured it. Of a
    *group*, no two units run on one host: the failure of a host takes one of them at most. An
    *application's* units are spread where that costs nothing. A *fixed* unit stays on its host: it takes
    slots and its load counts, but it never moves. hosts: those that it may get, or have; None for all.
    """

    name: str
    slots: int = 1
    load: float | None = None
    group: str | None = None
    application: str | None = None
    fixed: bool = False
    hosts: frozenset[str] | None = None


#: The host of each unit that has one, by the unit's name.
Placed = Mapping[str, str]


@dataclass(frozen=True)
class Cluster:
    """Hosts, units, and where the units run now.

    A unit without a host in `placed`, or with one that is not among the hosts, does not run; nor does one on
    a host that may not have it.
    """

    hosts: tuple[HostSlots, ...]
    units: tuple[Unit, ...]
    placed: Placed = field(default_factory=dict)

    def ordered(self) -> Cluster:
        """The same, sorted by names: plans do not depend on the order of a description."""
        return Cluster(
            tuple(sorted(self.hosts, key=lambda host: host.name)),
            tuple(sorted(self.units, key=lambda unit: unit.name)),
            dict(sorted(self.placed.items())),
        )

    def running(self) -> dict[str, str]:
        """The host of each unit that runs on one of the hosts."""
        names = {host.name for host in self.hosts}
        known = {
            unit.name: names if unit.hosts is None or unit.fixed else names & unit.hosts
            for unit in self.units
        }
        return {unit: host for unit, host in self.placed.items() if host in known.get(unit, ())}

    def having(self, placed: Placed) -> Cluster:
        """The same hosts and units, placed like this."""
        return replace(self, placed=dict(placed))


class Move(NamedTuple):
    """A unit gets another host. source: None if it does not run yet. why: for people."""

    unit: str
    source: str | None
    target: str
    why: str = ""


class Unplaced(NamedTuple):
    """A unit that no host can take. why: for people, with the remedy."""

    unit: str
    why: str


@dataclass(frozen=True)
class Plan:
    """What to do, in steps.

    steps: starts (no source) and moves that may happen at the same time; the next step begins when all of
    them have arrived. waiting: moves that had no place in the plan, because of the budget.
    """

    steps: tuple[tuple[Move, ...], ...] = ()
    unplaced: tuple[Unplaced, ...] = ()
    waiting: int = 0

    @property
    def starts(self) -> list[Move]:
        """Units that do not run yet."""
        return [move for step in self.steps for move in step if move.source is None]

    @property
    def moves(self) -> list[Move]:
        """Units that run, and get another host."""
        return [move for step in self.steps for move in step if move.source is not None]

    def result(self, cluster: Cluster) -> dict[str, str]:
        """Where every unit runs when the plan is done."""
        return cluster.running() | {move.unit: move.target for step in self.steps for move in step}


def check(cluster: Cluster) -> None:
    """Raise ClusterRefused if names are doubled, or a number makes no sense."""
    problems = [*_doubled("host", [host.name for host in cluster.hosts])]
    problems += _doubled("unit", [unit.name for unit in cluster.units])
    for host in cluster.hosts:
        if host.slots < 1:
            problems.append(f"host {host.name}: slots is {host.slots}: give 1 or more, or leave the host out")
        if host.speed is not None and not 0 < host.speed < float("inf"):
            problems.append(f"host {host.name}: speed is {host.speed}: give more than 0, or leave it out")
    running = cluster.running()
    for unit in cluster.units:
        if unit.slots < 1:
            problems.append(f"unit {unit.name}: slots is {unit.slots}: give 1 or more")
        if unit.load is not None and not 0 <= unit.load < float("inf"):
            problems.append(f"unit {unit.name}: load is {unit.load}: give 0 or more, or leave it out")
        if unit.fixed and unit.name not in running:
            problems.append(f"unit {unit.name}: it is fixed and runs on none of the hosts: leave it out")
    if problems:
        raise ClusterRefused("\n".join(problems))


def _doubled(kind: str, names: list[str]) -> list[str]:
    return [
        f"{kind} {name}: the name is given {count} times: rename all but one"
        for name, count in sorted(Counter(names).items())
        if count > 1
    ]
