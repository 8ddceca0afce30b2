"""What is tried with units that run, and at which scale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sluice.collection.agent import LOCAL
from sluice.placement.base import Cluster, HostSlots, Unit
from sluice.placement.measures import load_spread
from sluice.placement.usage import low_usage_first
from sluice.runtime.sections import Placement
from sluice_lab.placement.inputs import AT_FIRST, HOSTS, SLOTS, TOPOLOGIES
from sluice_lab.trials import Row

#: Lines have one length, so that the place of a line in its file is its number.
LINE_BYTES = 100
#: Lines a second of each front-end; in `uneven` of an ordinary one, and of the busy one.
RATE, QUIET, BUSY = 200, 5, 20_000
#: The unit whose front-end is the busy one.
BUSY_UNIT = "t4-2"
#: More than a run has moves.
_MOVES_AN_HOUR = 1_000
#: In `uneven` loads are known after a minute. Elsewhere they never are, so plans go by slots, as the paper's.
_HALF_LIFE, _NEVER = 60.0, 1e9
#: The heap of each agent: the product's is 512 MiB.
HEAP = "64m"


@dataclass(frozen=True)
class LiveScenario:
    """One thing that is tried.

    start: the scheduler that places the units. first: the number of hosts it places them on; the others
    join. uneven: one front-end writes more than the others, and the plan goes by measured load.
    """

    name: str
    title: str
    start: str
    first: int = AT_FIRST
    uneven: bool = False


SCENARIOS = {
    each.name: each
    for each in (
        LiveScenario("low", "slot-usage-low-first (4/3/3), then hosts 4 and 5 join", "paper"),
        LiveScenario("default", "Storm 0.8's default (5/4/1), then hosts 4 and 5 join", "storm-0.8"),
        LiveScenario(
            "uneven", "two units a host; one gets far more lines than the others", "paper", HOSTS, True
        ),
    )
}


@dataclass(frozen=True)
class LiveTimes:
    """How long a run stays in each phase, in seconds.

    settle: after lines begin to come, before anything is measured. phase: before the first move, and after
    the last. warm: the age of a process from which its processor time is measured in `uneven`, because its
    JVM compiles itself before.
    """

    settle: float = 10.0
    phase: float = 20.0
    warm: float = 30.0


TIMES = LiveTimes()
#: Only to see that all works.
QUICK = LiveTimes(settle=3.0, phase=5.0, warm=5.0)


def units() -> list[str]:
    """The units' names: t1-1 is the first of application t1."""
    return [f"t{topology}-{n}" for topology, count in enumerate(TOPOLOGIES, 1) for n in range(1, count + 1)]


def application(unit: str) -> str:
    return unit.partition("-")[0]


def front_end(unit: str) -> str:
    """The front-end that sends to this unit first."""
    return f"f{unit.removeprefix('t')}"


def hosts() -> list[str]:
    return [f"h{n}" for n in range(1, HOSTS + 1)]


def unmoved(row: Row) -> float:
    """How uneven the loads of a row of `uneven` were if every unit had stayed where it was placed."""
    loads = {unit: float(row[unit]) for unit in units()}
    placed = low_usage_first(cluster(hosts(), {}))
    return load_spread(cluster(hosts(), placed, loads), placed)


def placement(scenario: LiveScenario) -> Placement:
    """The settings of the DAG `placement`.

    Hosts are equally fast, because they are one machine. Units would rather be anywhere than on `local`,
    which is no host of the paper's.
    """
    speeds = {**dict.fromkeys(hosts(), 1.0), LOCAL: 1e-6}
    if scenario.uneven:
        return Placement(speeds=speeds, moves_an_hour=_MOVES_AN_HOUR, half_life_seconds=_HALF_LIFE)
    return Placement(speeds=speeds, moves_an_hour=_MOVES_AN_HOUR, half_life_seconds=_NEVER, hold_seconds=0.0)


def cluster(
    names: Iterable[str], running: Mapping[str, str], loads: Mapping[str, float] | None = None
) -> Cluster:
    """The units on these hosts, as a plan sees them.

    running: the host of each unit that has one. loads: what each unit uses, if it was measured. Hosts are
    equally fast, because they are one machine.
    """
    there = tuple(HostSlots(name, SLOTS, 1.0 if loads else None) for name in names)
    placed = tuple(
        Unit(
            name,
            load=loads[name] if loads else None,
            group=application(name),
            application=application(name),
        )
        for name in units()
    )
    return Cluster(there, placed, dict(running))
