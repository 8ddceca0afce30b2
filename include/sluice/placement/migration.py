"""Paper 004's migration to the letter, and the same with the pairings of HDFS's balancer.

1. As = Us / Ts over all hosts, Nas = Nus / Ns of each.
2. Four queues: *over* (Nas > As + Th), *above* (As < Nas <= As + Th), *below* (As - Th <= Nas < As), *under*
   (Nas < As - Th). A host exactly at As is in none.
3. Sources are paired with targets: over -> under, then above -> below. A pair moves Lb = min(Ls, Lt): Ls is
   what the source has to give, Lt what the target can take until they are at As. Both remember what they
   have given and taken, and leave their queue when they are done.
4. Again from 1, until the cluster is balanced.

The paper leaves two things open. Units are whole: a source gives until it has given at least Ls ("more than
it needs to"), and a target takes at most Lt. Balanced means that no host is in *over* or *under* and no pair
can move anything. A pass that moves nothing while one is in *over* or *under* would be repeated for ever: the
migration has *stalled*, and ends here.

The mended pairing adds over -> below and above -> under, as HDFS's balancer pairs them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from sluice.placement.base import Cluster, Move, Unit
from sluice.placement.usage import mean_usage, slots_used, usage

#: Th. "Usually 15 %", says the paper.
THRESHOLD = Fraction(15, 100)

Queue = Literal["over", "above", "mean", "below", "under"]
PAPER: tuple[tuple[Queue, Queue], ...] = (("over", "under"), ("above", "below"))
MENDED: tuple[tuple[Queue, Queue], ...] = (
    ("over", "under"),
    ("over", "below"),
    ("above", "under"),
    ("above", "below"),
)


@dataclass(frozen=True)
class Migration:
    """moves, in order; placed: where units run afterwards; passes: over steps 1 to 3; stalled: see above."""

    moves: tuple[Move, ...]
    placed: dict[str, str]
    passes: int
    stalled: bool


def queue(usage_of_host: Fraction, mean: Fraction, threshold: Fraction = THRESHOLD) -> Queue:
    """The queue of a host with this Nas, when the cluster's As is `mean`."""
    if usage_of_host > mean + threshold:
        return "over"
    if usage_of_host < mean - threshold:
        return "under"
    if usage_of_host == mean:
        return "mean"
    return "above" if usage_of_host > mean else "below"


def queues(cluster: Cluster, placed: dict[str, str], threshold: Fraction = THRESHOLD) -> dict[str, Queue]:
    """The queue of each host, in the hosts' order."""
    mean = mean_usage(cluster, placed)
    return {name: queue(of, mean, threshold) for name, of in usage(cluster, placed).items()}


def migrate(
    cluster: Cluster,
    pairs: tuple[tuple[Queue, Queue], ...] = PAPER,
    threshold: Fraction = THRESHOLD,
) -> Migration:
    """Migrate until the cluster is balanced, or a pass moves nothing."""
    placed = cluster.running()
    moves: list[Move] = []
    passes = 0
    while True:
        passes += 1
        made = _Pass(cluster, placed, threshold).run(pairs)
        moves += made
        if not made:
            left = queues(cluster, placed, threshold).values()
            return Migration(tuple(moves), placed, passes, "over" in left or "under" in left)


class _Pass:
    """One pass over the queues. It changes `placed`."""

    def __init__(self, cluster: Cluster, placed: dict[str, str], threshold: Fraction) -> None:
        self._units = cluster.units
        self._placed = placed
        self._queues = queues(cluster, placed, threshold)
        mean, used = mean_usage(cluster, placed), slots_used(cluster, placed)
        #: Slots above As (to give) or below it (to take), less what was given and taken in this pass.
        over = {host.name: used[host.name] - mean * host.slots for host in cluster.hosts}
        self._gives = {name: max(math.ceil(surplus), 0) for name, surplus in over.items()}
        self._takes = {name: max(math.floor(-surplus), 0) for name, surplus in over.items()}

    def run(self, pairs: tuple[tuple[Queue, Queue], ...]) -> list[Move]:
        moves: list[Move] = []
        for of_sources, of_targets in pairs:
            for source in self._in(of_sources):
                for target in self._in(of_targets):
                    moves += self._between(source, target)
        return moves

    def _in(self, wanted: Queue) -> list[str]:
        return [name for name, of in self._queues.items() if of == wanted]

    def _between(self, source: str, target: str) -> list[Move]:
        """Move Lb slots, in units that fit: the largest first, then by name."""
        moves: list[Move] = []
        left = min(self._gives[source], self._takes[target])
        while left > 0 and (unit := self._largest(source, left)):
            moves.append(Move(unit.name, source, target))
            self._placed[unit.name] = target
            self._gives[source] -= unit.slots
            self._takes[target] -= unit.slots
            left -= unit.slots
        return moves

    def _largest(self, host: str, slots: int) -> Unit | None:
        fitting = (
            unit for unit in self._units if self._placed.get(unit.name) == host and unit.slots <= slots
        )
        return min(fitting, key=lambda unit: (-unit.slots, unit.name), default=None)
