"""Forgetting: once the total is twice the half-life, it and all counts are halved.

From then on that is once in `half_life` tuples, and a tuple weighs 1/2 for each such time that has passed
since: yesterday's hot key does not stay hot. Halving at intervals instead of weighting each tuple keeps
counts whole numbers (as Einziger, Friedman and Manes 2017, "TinyLFU"). An upper bound is halved
up and a lower one down, so they stay bounds of the weighted count; rounding costs at most a tuple in all.

`FOREVER` forgets after 2**40 tuples, which is as the papers have it for all practical purposes and keeps
every count in 64 bits.
"""

from __future__ import annotations

from sluice.grouping.compiled import step

FOREVER = 1 << 40


@step
def due(total: int, half_life: int) -> bool:
    return total >= 2 * half_life


@step
def halved_up(count: int) -> int:
    return (count + 1) >> 1


@step
def halved_down(count: int) -> int:
    return count >> 1
