"""Clusters for the tests of placement."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from hypothesis import strategies as st

from sluice.placement.base import Cluster, HostSlots, Unit


def slots(*used: int, of: int = 8) -> Cluster:
    """Hosts h1, h2, ... of 8 slots, with so many units of one slot on each."""
    hosts = tuple(HostSlots(f"h{n}", of) for n in range(1, len(used) + 1))
    placed = {
        f"u{number:02}": host
        for number, host in enumerate(
            host.name for host, count in zip(hosts, used, strict=True) for _ in range(count)
        )
    }
    return Cluster(hosts, tuple(Unit(name) for name in placed), placed)


@st.composite
def clusters(draw: st.DrawFn, fixed: bool = False, choosy: bool = False) -> Cluster:
    """Any cluster: measured or not, units running anywhere, also where they may not stay, or not at all.

    fixed: some of the running ones are. choosy: some may not run everywhere.
    """
    measured = draw(st.booleans())
    hosts = tuple(
        HostSlots(
            f"h{n}",
            draw(st.integers(1, 5)),
            draw(st.none() | st.sampled_from((0.5, 1.0, 2.0))) if measured else None,
        )
        for n in range(draw(st.integers(1, 4)))
    )
    names = [host.name for host in hosts]
    some = st.none() | st.frozensets(st.sampled_from(names))
    units = tuple(
        Unit(
            f"u{n}",
            draw(st.sampled_from((1, 1, 2))),
            draw(st.none() | st.floats(0, 10)) if measured else None,
            draw(st.sampled_from((None, "g1", "g2"))),
            draw(st.sampled_from((None, "a1", "a2"))),
            hosts=draw(some) if choosy else None,
        )
        for n in range(draw(st.integers(0, 8)))
    )
    where = st.none() | st.sampled_from([*names, "gone"])
    drawn = {unit.name: draw(where) for unit in units}
    found = Cluster(hosts, units, {unit: host for unit, host in drawn.items() if host is not None})
    if not fixed:
        return found
    running = found.running()
    kept = tuple(replace(unit, fixed=unit.name in running and draw(st.booleans())) for unit in units)
    return Cluster(hosts, kept, found.placed)


@st.composite
def full(draw: st.DrawFn) -> Cluster:
    """A small cluster in which each unit has a host."""
    hosts = tuple(
        HostSlots(f"h{n}", draw(st.integers(2, 4)), draw(st.sampled_from((1.0, 1.0, 2.0))))
        for n in range(draw(st.integers(1, 3)))
    )
    units = tuple(
        Unit(
            f"u{n}",
            draw(st.sampled_from((1, 1, 2))),
            draw(st.floats(0.1, 9)),
            draw(st.sampled_from((None, "g1"))),
        )
        for n in range(draw(st.integers(1, 5)))
    )
    possible = list(everywhere(Cluster(hosts, units)))
    if not possible:
        return Cluster(hosts, ())
    return Cluster(hosts, units, draw(st.sampled_from(possible)))


def everywhere(cluster: Cluster) -> Iterator[dict[str, str]]:
    """Every placement that slots and groups allow."""
    for names in itertools.product([host.name for host in cluster.hosts], repeat=len(cluster.units)):
        pairs = list(zip(cluster.units, names, strict=True))
        fits = all(
            sum(unit.slots for unit, name in pairs if name == host.name) <= host.slots
            for host in cluster.hosts
        )
        groups = [(unit.group, name) for unit, name in pairs if unit.group]
        if fits and len(groups) == len(set(groups)):
            yield {unit.name: name for unit, name in pairs}
