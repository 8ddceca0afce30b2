"""Other systems' schedulers, by their rules, for units on hosts. None of them knows loads or groups.

A topology, a Spark application and a Flink job are an *application* here; a worker, an executor and a slot
are a unit. Applications are scheduled one after the other, in the order of their first units; a unit
without one is an application of its own. Where a rule knows only units of one slot, a unit of several goes to
the next host that has them. A unit that fits nowhere stays without a host.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from sluice.placement.base import Cluster, HostSlots, Unit
from sluice.placement.usage import low_usage_first, slots_used

Scheduler = Callable[[Cluster], dict[str, str]]


class _Slots:
    """Free slots while a schedule is made."""

    def __init__(self, cluster: Cluster) -> None:
        self.placed = cluster.running()
        self.hosts = sorted(cluster.hosts, key=lambda host: host.name)
        used = slots_used(cluster, self.placed)
        self.free = {host.name: host.slots - used[host.name] for host in self.hosts}

    def give(self, unit: Unit, host: str) -> None:
        self.placed[unit.name] = host
        self.free[host] -= unit.slots

    def fitting(self, unit: Unit) -> list[HostSlots]:
        return [host for host in self.hosts if self.free[host.name] >= unit.slots]

    def usage(self, host: HostSlots) -> float:
        return 1 - self.free[host.name] / host.slots

    def deal(self, units: Iterable[Unit], order: Sequence[str]) -> None:
        """Deal the units to the hosts in turn; a host without room is passed over."""
        turn = 0
        for unit in units:
            for n in range(len(order)):
                host = order[(turn + n) % len(order)]
                if self.free[host] >= unit.slots:
                    self.give(unit, host)
                    turn += n + 1
                    break


def storm_first(cluster: Cluster) -> dict[str, str]:
    """Storm's even scheduler as it was in 0.8, the paper's: slots of the hosts in turn.

    Each topology begins with the first host again, whatever is in use.
    """
    slots = _Slots(cluster)
    for units in applications(cluster):
        slots.deal(units, [host.name for host in slots.hosts])
    return slots.placed


def storm(cluster: Cluster) -> dict[str, str]:
    """Storm's even scheduler of today: in turn, beginning with the host with most free slots."""
    slots = _Slots(cluster)
    for units in applications(cluster):
        order = sorted(slots.hosts, key=lambda host: -slots.free[host.name])
        slots.deal(units, [host.name for host in order])
    return slots.placed


def spark(cluster: Cluster) -> dict[str, str]:
    """Spark's spread-out (standalone master): in turn, by free cores; the last of equal hosts comes first."""
    slots = _Slots(cluster)
    for units in applications(cluster):
        order = sorted(slots.hosts, key=lambda host: slots.free[host.name])[::-1]
        slots.deal(units, [host.name for host in order])
    return slots.placed


def flink_slots(cluster: Cluster) -> dict[str, str]:
    """Flink's evenly-spread-out slots: each slot on the task manager with the lowest utilisation."""
    slots = _Slots(cluster)
    for units in applications(cluster):
        for unit in units:
            if fitting := slots.fitting(unit):
                slots.give(unit, min(fitting, key=slots.usage).name)
    return slots.placed


def flink_tasks(cluster: Cluster) -> dict[str, str]:
    """Flink's balanced tasks scheduling: the largest requests first, on the host with the fewest tasks.

    A unit has as many tasks as slots. Tasks of all jobs count, as in a cluster with one job.
    """
    slots = _Slots(cluster)
    for units in applications(cluster):
        for unit in sorted(units, key=lambda unit: -unit.slots):
            if fitting := slots.fitting(unit):
                fewest = min(fitting, key=lambda host: host.slots - slots.free[host.name])
                slots.give(unit, fewest.name)
    return slots.placed


def r_storm(cluster: Cluster) -> dict[str, str]:
    """R-Storm: the host whose resources are nearest to what the unit asks, near to the topology's first.

    Slots stand for memory, the hard constraint, and loads for CPU, the soft one, both as parts of the largest
    host. A topology's reference is the host with most resources left; another host is 1 away from it.
    """
    slots = _Slots(cluster)
    most = max(host.slots for host in slots.hosts)
    total = sum(host.slots for host in slots.hosts)
    load = sum(unit.load or 0.0 for unit in cluster.units) or 1.0
    speed = {host.name: host.speed or float(host.slots) for host in slots.hosts}
    fastest = max(speed.values())
    # CPU is asked for in the same unit as it is offered: all loads together ask for all slots in use.
    used = sum(unit.slots for unit in cluster.units) / total * sum(speed.values())
    asked = {unit.name: (unit.load or 0.0) / load * used for unit in cluster.units}
    cpu = dict(speed)
    for unit in cluster.units:
        if unit.name in slots.placed:
            cpu[slots.placed[unit.name]] -= asked[unit.name]

    def left(host: HostSlots) -> float:
        return slots.free[host.name] / most + cpu[host.name] / fastest

    for units in applications(cluster):
        reference = max(slots.hosts, key=left).name
        for unit in units:
            fitting = slots.fitting(unit)
            if not fitting:
                continue

            def distance(host: HostSlots, unit: Unit = unit, reference: str = reference) -> float:
                memory = (slots.free[host.name] - unit.slots) / most
                processor = (cpu[host.name] - asked[unit.name]) / fastest
                return math.sqrt(memory**2 + processor**2 + (host.name != reference))

            host = min(fitting, key=distance).name
            slots.give(unit, host)
            cpu[host] -= asked[unit.name]
    return slots.placed


def applications(cluster: Cluster) -> list[list[Unit]]:
    """The units that do not run, by application."""
    running = cluster.running()
    found: dict[tuple[str, str], list[Unit]] = {}
    for unit in cluster.units:
        if unit.name not in running:
            key = ("unit", unit.name) if unit.application is None else ("application", unit.application)
            found.setdefault(key, []).append(unit)
    return list(found.values())


#: Schedulers that place what does not run, by name.
SCHEDULERS: dict[str, Scheduler] = {
    "storm-0.8": storm_first,
    "storm": storm,
    "spark": spark,
    "flink-slots": flink_slots,
    "flink-tasks": flink_tasks,
    "r-storm": r_storm,
    "paper": low_usage_first,
}
