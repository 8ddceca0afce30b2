"""Clusters to place and to migrate: paper 004's, random ones, and a large one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from sluice.placement.base import Cluster, HostSlots, Unit
from sluice.placement.usage import low_usage_first

#: Workers of paper 004's four topologies. Its table of them is lost, but Storm 0.8's scheduler makes the
#: paper's 5, 4 and 1 slots of these; 1, 2, 2 and 5 would do, too.
TOPOLOGIES = (2, 2, 2, 4)
HOSTS, SLOTS = 5, 8
#: The hosts that are there at the beginning; the others join.
AT_FIRST = 3
INPUTS, SEED = 1_000, 1


@dataclass(frozen=True)
class Input:
    """A cluster whose units do not run yet, and the hosts that join when they do."""

    first: Cluster
    joining: tuple[HostSlots, ...]

    def joined(self, placed: dict[str, str]) -> Cluster:
        """The cluster with all hosts, when its units run like this."""
        return Cluster((*self.first.hosts, *self.joining), self.first.units, placed)


def paper() -> Input:
    """Paper 004's: 5 hosts of 8 slots, 2 of which join later, and 4 topologies of 10 workers."""
    hosts = tuple(HostSlots(f"h{n}", SLOTS) for n in range(1, HOSTS + 1))
    units = tuple(
        Unit(f"t{topology}-{worker}", application=f"t{topology}")
        for topology, workers in enumerate(TOPOLOGIES, start=1)
        for worker in range(1, workers + 1)
    )
    return Input(Cluster(hosts[:AT_FIRST], units), hosts[AT_FIRST:])


def random_inputs(count: int = INPUTS, seed: int = SEED) -> Iterator[Input]:
    """Small clusters, each another one: the same for the same seed.

    3 to 5 hosts of 4 to 8 slots and of speeds between 1 and 2, and 2 to 3 units for each host: half of them
    with the loads of a heavy tail, half with about equal loads. Some units take two slots. A third of the
    units are pairs that must not share a host. Then 1 or 2 hosts join.
    """
    drawn = random.Random(seed)  # noqa: S311 - no secret
    while count:
        made = _input(drawn)
        # An input that the simplest rule cannot place would say how each gives up, not how even it is.
        if len(low_usage_first(made.first)) == len(made.first.units):
            count -= 1
            yield made


def _input(drawn: random.Random) -> Input:
    hosts = [_host(drawn, f"h{n}") for n in range(drawn.randint(3, 5))]
    joining = tuple(_host(drawn, f"j{n}") for n in range(drawn.randint(1, 2)))
    count = drawn.randint(2 * len(hosts), 3 * len(hosts))
    heavy = drawn.random() < 1 / 2
    pairs = count // 6
    units = tuple(
        Unit(
            f"u{n:02}",
            slots=drawn.choices((1, 2), (4, 1))[0],
            load=drawn.paretovariate(2.0) if heavy else drawn.uniform(1, 2),
            group=f"g{n // 2}" if n < 2 * pairs else None,
            application=f"a{drawn.randrange(4)}",
        )
        for n in range(count)
    )
    return Input(Cluster(tuple(hosts), units), joining)


def _host(drawn: random.Random, name: str) -> HostSlots:
    return HostSlots(name, drawn.randint(4, 8), drawn.choice((1.0, 1.0, 1.5, 2.0)))


def large(hosts: int = 200, units: int = 2_000, seed: int = 0) -> Input:
    """A large cluster, with pairs, applications and loads of a heavy tail; a tenth of the hosts joins."""
    drawn = random.Random(seed)  # noqa: S311 - no secret
    first = tuple(HostSlots(f"h{n:03}", 16, drawn.choice((1.0, 1.0, 1.5, 2.0))) for n in range(hosts))
    some = tuple(
        Unit(
            f"u{n:04}",
            load=drawn.paretovariate(2.0),
            group=f"g{n // 2}" if n < units // 3 else None,
            application=f"a{n % 40}",
        )
        for n in range(units)
    )
    return Input(Cluster(first[: -hosts // 10], some), first[-hosts // 10 :])
