"""All that plain numbers are counted for, in one loop over the lines of a batch."""

from __future__ import annotations

import numpy as np

from sluice.runtime.arrays import Bools, Floats, Ints
from sluice.runtime.compiled import compiled


@compiled
def totals(
    values: Floats, integral: Bools, rows: Ints, groups: Ints, size: int
) -> tuple[Ints, Ints, Ints, Floats, Floats]:
    """Of each group: lines, measures, the sum of the integral ones, the least measure and the greatest.

    `values`: of all lines of the batch, NaN where there is none; `integral`: which of them are integers,
    small enough that no sum overflows. `rows` (empty: all) are the lines that count, `groups` their groups. A
    group without measures has infinity as its least and minus infinity as its greatest.
    """
    lines, measured, total = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64)
    least, greatest = np.full(size, np.inf), np.full(size, -np.inf)
    for n in range(len(groups)):
        row = rows[n] if len(rows) else n
        group, value = groups[n], values[row]
        lines[group] += 1
        if value == value:  # noqa: PLR0124 - NaN is not
            measured[group] += 1
            if integral[row]:
                total[group] += np.int64(value)
            # Of zeros with different signs the last one stays, as in numpy's minimum and maximum.
            if not least[group] < value:
                least[group] = value
            if not greatest[group] > value:
                greatest[group] = value
    return lines, measured, total, least, greatest
