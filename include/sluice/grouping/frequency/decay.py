"""Forgetting: once the total is twice the half-life, the total and all counts are halved.

From then on this happens once in `half_life` tuples. Each halving after a tuple came halves its weight, so
yesterday's hot key does not stay hot. Halving at intervals instead of weighting each tuple keeps counts whole
numbers (as in Einziger, Friedman and Manes 2017, "TinyLFU"). Halving rounds an upper bound up and a lower
bound down, so they stay bounds of the weighted count; rounding costs at most one tuple in all.

`FOREVER` is a half-life of 2**40 tuples. In practice nothing is forgotten, as in the papers, and every count
fits into 64 bits.
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
