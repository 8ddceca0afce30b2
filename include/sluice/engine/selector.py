"""Which lines a task counts and how they group: the two steps each task needs for itself.

Selecting, combining and numbering are one loop over the lines in machine code, with the codes of all columns
side by side. So a task costs about ten nanoseconds a line, however many other tasks there are, and needs no
memory of its own: the arrays of one grouping are used again for the next.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from sluice.engine.extract import ExtractedValues
from sluice.engine.groups import LIMIT, Coded, Groups, decode, dense
from sluice.engine.outcomes import FLAGS, LOOKED_AT, TaskOutcome
from sluice.runtime.arrays import Bools, Bytes, Ints
from sluice.tasks.extract import Extract

#: A table of this many times the lines is faster than a hash.
_DENSE = 8
_NO_MASK = np.empty(0, bool)
_NO_FLAGS = np.empty(0, np.uint8)


class Selector:
    """The coded columns of one batch of lines."""

    def __init__(self, lines: int, columns: int) -> None:
        """`columns`: the most columns that there can be."""
        self._codes = np.empty((columns, lines), np.int32)
        self._row: dict[Extract, int] = {}
        self._rows, self._combined = np.empty(lines, np.int64), np.empty(lines, np.int64)

    def column(self, extract: Extract, values: ExtractedValues) -> int:
        """The number of the column that has these values."""
        found = self._row.get(extract)
        if found is None:
            found = self._row[extract] = len(self._row)
            self._codes[found] = values.codes
        return found

    def group(
        self,
        mask: Bools | None,
        filters: Sequence[tuple[int, Bytes]],
        period: Coded,
        columns: Sequence[tuple[int, int]],
        days: Coded,
    ) -> tuple[Ints | None, Groups, TaskOutcome] | None:
        """The lines that a task counts (None: all), their groups, and what became of the other lines.

        Lines and groups are valid until the next call. `filters`: a column and the flags of its codes;
        `columns`: a column and how many codes it has. Returns None if there are too many combinations for one
        number.
        """
        from sluice.engine import kernels

        sizes = [period.size, *(size for _, size in columns)]
        product = math.prod(sizes)
        if product >= LIMIT:
            return None
        tables = [table for _, table in filters]
        tally = np.zeros((days.size, FLAGS), np.int64)
        absent, long = (np.empty(LOOKED_AT + 1, np.int64) for _ in range(2))
        found, unmatched, over = kernels.select(
            self._codes,
            _ints([column for column, _ in filters]),
            np.concatenate([*tables, _NO_FLAGS]),
            np.cumsum([0, *(len(table) for table in tables)]),
            _NO_MASK if mask is None else mask,
            period.codes,
            _ints([column for column, _ in columns]),
            _ints(sizes[1:]),
            days.codes,
            tally,
            absent,
            long,
            self._rows,
            self._combined,
        )
        numbers = self._combined[:found]
        if product <= max(_DENSE * found, 1024):
            kept = np.empty(min(product, found), np.int64)
            size = kernels.number(numbers, np.full(product, -1, np.int32), kept)
            kept = kept[:size]
        else:
            numbers, kept = dense(numbers, product)
        rows = None if found == len(self._rows) else self._rows[:found]
        groups = Groups(numbers, len(kept), decode(kept, sizes))
        return rows, groups, TaskOutcome(tally, absent[:unmatched], long[:over])


def _ints(values: Sequence[int]) -> Ints:
    return np.array(values, np.int64)
