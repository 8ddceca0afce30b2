"""A statement's work, divided: each share is read by one Spark task.

The side of every period is decided once for a whole statement, when it is planned. So each series is read
once, from one layer, however long the statement runs and whatever is published meanwhile.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from sluice.results.layers import Layers, Settled
from sluice.results.sides import cut
from sluice.state.portions import portions
from sluice.storage.tables.finals import Sides
from sluice.tasks.spec import ActiveTask

#: Packed bytes of a share. A day of 100 series a minute has about 3 MiB.
SHARE_BYTES = 8 << 20


@dataclass(frozen=True)
class Share:
    """The periods of one version that start in [since, until), ms, and their sides."""

    task: ActiveTask
    since: int
    until: int
    sides: Sides

    def of(self, layers: Layers) -> Settled:
        """The layers for this share."""
        return Settled(layers, self.task, self.sides)


def shares(task: ActiveTask, sides: Sides, since: int, until: int, most: int = SHARE_BYTES) -> list[Share]:
    """Divide the periods that start in [since, until) into shares of about `most` bytes, in order.

    A published range is never divided, and neither is a period. Without any period there is no share.
    """
    units = sorted(_units(sides, since, until))
    firsts = [portion[0][0] for portion in portions(units, lambda unit: unit[1], most)]
    return [
        Share(task, begin, end, cut(sides, begin, end))
        for begin, end in pairwise([*([since] if firsts else []), *firsts[1:], until])
    ]


def _units(sides: Sides, since: int, until: int) -> Iterator[tuple[int, int]]:
    """What is not divided: where it begins, and its bytes."""
    for each in sides.final:
        blocks = [block for block in each.blocks if block.first < until and block.last >= since]
        yield each.first, sum(block.bytes for block in blocks)
    firsts = [each.first for each in sides.final]
    for start in sides.open:
        before = bisect_right(firsts, start) - 1
        if before >= 0 and start < sides.final[before].until:
            continue  # it came late, and is read with its range
        state = sides.state.get(start)
        filled = sum(pointer.bytes for pointer in sides.filled.get(start, ()))
        yield start, filled + (state.bytes if state is not None else 0)
