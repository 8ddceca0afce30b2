"""Failover groups: which collectors must not share a host.

An edge sends to the next collector of its list when one fails, so two collectors on one list stand in for
each other. All collectors that lists connect are one *family*. If there are hosts enough, a family is one
group: no two of it share a host. If there are not, keeping all apart is impossible. The family is then cut
into as few groups as the hosts allow, of even sizes, and collectors that follow each other on a list stay
together where they can: short lists first, because those have the least choice. A group of one is none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Together:
    """group: no two of it may share a host; None if there is no other. family: collectors linked by lists."""

    group: str | None
    family: str


def failover_groups(lists: Iterable[Sequence[str]], hosts: int) -> dict[str, Together]:
    """The group and family of each collector that is on a list. lists: the edges', in order of preference.

    A group is named after its members, of which two names are shown.
    """
    counts = Counter(tuple(each) for each in lists)
    names = sorted({name for each in counts for name in each})
    pairs = _pairs(counts)
    families = _joined(names, pairs, {name: len(names) for name in names})
    most = {name: _most(len(members), hosts) for name, members in families.items()}
    groups = _joined(names, pairs, most)
    return {
        name: Together(_label(groups[name]) if len(groups[name]) > 1 else None, _label(families[name]))
        for name in names
    }


def _most(members: int, hosts: int) -> int:
    """The size of a group, if as few as possible are made of a family, all about as large."""
    groups = -(-members // max(hosts, 1))
    return -(-members // groups)


def _pairs(counts: Counter[tuple[str, ...]]) -> list[tuple[str, str]]:
    """Neighbours on lists, the most important first."""
    weights: dict[tuple[str, str], tuple[int, int, int]] = {}
    for names, count in sorted(counts.items()):
        for place, (one, other) in enumerate(pairwise(names)):
            pair = (one, other) if one < other else (other, one)
            length, earliest, many = weights.get(pair, (len(names), place, 0))
            weights[pair] = min(length, len(names)), min(earliest, place), many - count
    return sorted(weights, key=lambda pair: (weights[pair], pair))


def _joined(names: list[str], pairs: list[tuple[str, str]], most: dict[str, int]) -> dict[str, list[str]]:
    """The set of each name, after the pairs were joined as long as no set becomes too large."""
    sets = {name: [name] for name in names}
    for one, other in pairs:
        if sets[one] is not sets[other] and len(sets[one]) + len(sets[other]) <= most[one]:
            joined = sorted(sets[one] + sets[other])
            sets.update(dict.fromkeys(joined, joined))
    return sets


def _label(members: list[str]) -> str:
    shown = ", ".join(members[:2])
    return shown if len(members) <= 2 else f"{shown} and {len(members) - 2} more"  # noqa: PLR2004 - as shown
