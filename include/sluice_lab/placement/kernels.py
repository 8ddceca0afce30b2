"""The loop of the exact search, in machine code. numba is slow to load: import this where it is used."""
# ruff: noqa: PLR0912, PLR0915, PLR0917 - a kernel is one loop over arrays that its caller made

from __future__ import annotations

import numpy as np

from sluice.placement.board import NOWHERE, Numbers
from sluice.runtime.compiled import compiled


@compiled
def branch(
    weights: Numbers,
    slots: Numbers,
    now: Numbers,
    groups: Numbers,
    most: Numbers,
    least: Numbers,
    room: Numbers,
    moves: int,
    branches: int,
) -> Numbers:
    """The first way that is found, depth first, to give all units hosts; NOWHERE for all if none is.

    weights, slots, now, groups: of each unit, in the order in which they get hosts; `now` is where it is.
    most, least: the load that each host may and must have; room: its slots. moves: how many units may get
    another host than `now`. branches: after how many the search gives up.
    """
    units, count = len(weights), len(room)
    hosts, tried = np.full(units, NOWHERE), np.full(units, NOWHERE)
    load, free = np.zeros(count, np.int64), room.copy()
    taken = np.zeros((count, max(groups.max() + 1, 1)), np.bool_)
    left = weights.sum()
    stays = np.zeros(count, np.int64)  # what of the units that are left is on each host now
    for unit in range(units):
        stays[now[unit]] += weights[unit]
    # The host before each one that is like it: where both are empty, only the first is tried.
    twin = np.full(count, NOWHERE)
    for host in range(count):
        for other in range(host):
            alike = most[host] == most[other] and least[host] == least[other] and room[host] == room[other]
            if alike and stays[host] == 0 and stays[other] == 0:
                twin[host] = other
    moved = depth = seen = 0
    while depth >= 0:
        weight, old, group, host = weights[depth], now[depth], groups[depth], hosts[depth]
        if host == NOWHERE:  # from above
            left -= weight
            stays[old] -= weight
        else:  # from below: what came after this host did not fit
            hosts[depth] = NOWHERE
            load[host] -= weight
            free[host] += slots[depth]
            moved -= host != old
            if group != NOWHERE:
                taken[host, group] = False
        fits = False
        while not fits and tried[depth] + 1 < count and seen < branches:
            tried[depth] += 1
            seen += 1
            host = tried[depth]
            host = old if host == 0 else host - 1 if host <= old else host  # the old one first
            after = moved + (host != old)
            if load[host] + weight > most[host] or free[host] < slots[depth] or after > moves:
                continue
            if (group != NOWHERE and taken[host, group]) or (twin[host] != NOWHERE and load[twin[host]] == 0):
                continue
            load[host] += weight
            space = need = over = under = 0
            for each in range(count):
                space += max(most[each] - load[each], 0)
                need += max(least[each] - load[each], 0)
                over += load[each] + stays[each] > most[each]
                under += load[each] + stays[each] < least[each]
            more = max(over, under)  # each of these hosts needs a move of its own
            fits = space >= left >= need and after + more <= moves
            if not fits:
                load[host] -= weight
        if not fits:
            tried[depth] = NOWHERE
            left += weight
            stays[old] += weight
            depth -= 1
            continue
        hosts[depth], moved = host, after
        free[host] -= slots[depth]
        if group != NOWHERE:
            taken[host, group] = True
        if depth + 1 == units:
            return hosts
        depth += 1
    return hosts
