"""The loop of planned grouping: look up a tuple's worker; if it has too much, find another.

A worker has *too much* from a source once the source has sent it more than its share of the tuples so far, by
more than `tolerance` standard deviations. A standard deviation is what chance would do, sqrt(share * tuples
of the batch). At the beginning of a batch `patience` more are allowed, then ever fewer until its end: a
worker that is ahead early is often behind later, and every unit that moves too soon costs a replica. A tuple
for a worker that has too much goes elsewhere if

- its unit is loose (`planner`), or
- its key turned hot. Such keys are found by a Space-Saving summary. It counts only tuples that are not loose
  and whose worker had too much; a key that turns hot overloads its worker, so it is among them.

Elsewhere is another part of the key or one of a few workers named by hashes of the key, whichever would
finish first. It is kept until it is ahead of its share by `KEPT` of the tolerance. All sources try the same
workers in the same order, so that they do not each choose a different one.

A source knows only its own tuples. It cannot see what other sources tolerate at the same worker, so with S
sources the imbalance that is left is up to sqrt(S) times that of one.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np

from sluice.grouping.base import Targets
from sluice.grouping.compiled import kernel, step
from sluice.grouping.frequency.space_saving import SpaceSaving, observe
from sluice.grouping.frequency.table import NOWHERE, CounterTable, Places, find, put
from sluice.grouping.hashing import mix, worker_of
from sluice.grouping.routing_plan import NONE, SPLIT, RoutingPlan, following, part_at, unit_of
from sluice.runtime.arrays import Floats, Hashes, Ints

#: Workers tried at a time: the best of 16 has, on average, 1.8 standard deviations less than its share.
TRIED = 16
#: Another worker is kept until it has more than its share by this part of the tolerance.
KEPT = 0.5
_ELSEWHERE = np.uint64(0x65)  # where the sequence of a key's hashes for this begins


class Source(NamedTuple):
    """What one source counts while it has a plan.

    expected: how many tuples it will send; 0: unknown.
    tolerance, patience, alarm: in standard deviations. A key with `alarm` of them too many is hot.
    roots: square roots of the workers' shares. sent: tuples by worker. tuples: all of them, shape (1,).
    positions: by listed key, the position of its last tuple.
    elsewhere: by unit, where its tuples go if not home, or NONE. rounds: by unit, how often hashes were tried
    to find that. The plan's units are followed by the keys that turned hot.
    hot, places, found: the keys that turned hot, and how many there are, shape (1,). seen: the summary that
    finds them.
    """

    expected: float
    tolerance: float
    patience: float
    alarm: float
    roots: Floats
    sent: Ints
    tuples: Ints
    positions: Hashes
    elsewhere: Places
    rounds: Places
    hot: CounterTable
    places: Places
    found: Ints
    seen: SpaceSaving


@kernel
def route_planned(keys: Hashes, targets: Targets, plan: RoutingPlan, source: Source) -> None:
    """Fill `targets`. O(1) a tuple; O(parts) when a listed key seeks another worker."""
    for i in range(len(keys)):
        key = keys[i]
        unit = unit_of(plan, key)
        worker: int = plan.homes[unit]
        if worker == SPLIT:
            source.positions[unit] = following(source.positions[unit])
            worker = part_at(plan, unit, source.positions[unit])
        if _ahead(plan, source, worker) > _tolerated(source) * source.roots[worker]:
            if not plan.loose[unit]:
                unit = _turned_hot(plan, source, key, worker)
            if unit != NONE:
                worker = _elsewhere(plan, source, unit, key, worker)
        source.sent[worker] += 1
        source.tuples[0] += 1
        targets[i] = worker


@step
def _ahead(plan: RoutingPlan, source: Source, worker: int) -> float:
    """By how many tuples a worker is ahead of its share; negative if it is behind."""
    return source.sent[worker] - plan.shares[worker] * source.tuples[0]  # type: ignore[no-any-return]


@step
def _deviation(source: Source) -> float:
    """A standard deviation of a worker's tuples in this batch, over the root of its share."""
    return sqrt(max(source.tuples[0], source.expected))


@step
def _tolerated(source: Source) -> float:
    """By how many tuples a worker may be ahead, divided by the root of its share."""
    passed: float = min(source.tuples[0], source.expected) / max(source.expected, 1.0)
    waits = source.patience * (1 - passed) if source.expected > 0 else 0.0
    return (source.tolerance + waits) * _deviation(source)


@step
def _through(plan: RoutingPlan, source: Source, worker: int) -> float:
    """When a worker will finish with one tuple more, in any unit of time."""
    return (source.sent[worker] + 1) / plan.shares[worker]  # type: ignore[no-any-return]


@step
def _turned_hot(plan: RoutingPlan, source: Source, key: np.uint64, worker: int) -> int:
    """Count a key that is not loose and return its unit if it turned hot, else NONE."""
    slot = find(source.hot, key)
    number: int = source.hot.entries[slot]
    if number != NOWHERE:
        return len(plan.homes) + number
    number = source.found[0]
    if number == len(source.places):
        return NONE
    # What is certain of an estimate: it is too high by at most total / counters.
    certain = observe(source.seen, key) - source.seen.total[0] / len(source.seen.counts)
    if certain < max(1.0, source.alarm * _deviation(source) * source.roots[worker]):
        return NONE
    put(source.hot, slot, key, number, source.places)
    source.found[0] += 1
    return len(plan.homes) + number


@step
def _elsewhere(plan: RoutingPlan, source: Source, unit: int, key: np.uint64, home: int) -> int:
    """The worker for a tuple whose home has too much; home, if it is the best of those tried."""
    last: int = source.elsewhere[unit]
    kept = KEPT * source.tolerance * _deviation(source)
    if last != NONE and _ahead(plan, source, last) <= kept * source.roots[last]:
        return last
    best, least = home, _through(plan, source, home)
    if unit < len(plan.keys):
        for part in range(plan.first[unit], plan.first[unit + 1]):
            worker: int = plan.parts[part]
            if _through(plan, source, worker) < least:
                best, least = worker, _through(plan, source, worker)
    if _ahead(plan, source, best) > 0:
        seed = (plan.seed ^ _ELSEWHERE) + np.uint64(source.rounds[unit]) * np.uint64(TRIED)
        source.rounds[unit] += 1
        for i in range(TRIED):
            worker = worker_of(mix(key, seed + np.uint64(i)), len(plan.shares))
            if _through(plan, source, worker) < least:
                best, least = worker, _through(plan, source, worker)
    source.elsewhere[unit] = best
    return best
