"""The engine's loops over lines in machine code (numba): cutting, reading stamps, grouping.

Each has a twin in numpy and pyarrow, which small batches use: numba needs half a second to load, once a
process, and a batch of a few thousand lines is done by then. The tests compare the twins.
Import this module inside the function that needs it.
"""
# ruff: noqa: PLR0912, PLR0917, PLR2004 - a kernel is one loop over arrays that its caller made

from __future__ import annotations

import numpy as np

from sluice.engine.kernels.words import equal, first_byte, matches, word
from sluice.runtime.arrays import Bools, Bytes, Int32s, Ints
from sluice.runtime.compiled import compiled

_ZERO, _NINE = 48, 57
_STAMP = 26  # the characters of 17/May/2015:10:05:03 +0000


@compiled
def _digits(data: Bytes, at: int, count: int) -> int:
    """The number that `count` digits make; -1 if not all of them are digits."""
    value = 0
    for n in range(at, at + count):
        if data[n] < _ZERO or data[n] > _NINE:
            return -1
        value = value * 10 + data[n] - _ZERO
    return value


@compiled
def _days(year: int, month: int, day: int) -> int:
    """Days since the epoch in the Gregorian calendar; years are taken to begin in March."""
    y = year - 1 if month < 3 else year
    era = y // 400
    of_era = y - era * 400
    of_year = (153 * (month + (9 if month < 3 else -3)) + 2) // 5 + day - 1
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


@compiled
def stamps(data: Bytes, bounds: Int32s, months: Bytes, ms: Ints, valid: Bools, shaped: Bools) -> None:
    """Read Apache's stamp after the first bracket of each line, data[bounds[n]:bounds[n + 1]].

    `shaped`: whether there is a stamp; `ms`: its time; `valid`: whether that time is real. `months`: the
    twelve names, three bytes each. The years are 1970 to 9998, as in `times`.
    """
    before, seconds = -1, 0  # where the last stamp with a real time stands, and its time
    for line in range(len(bounds) - 1):
        ms[line], valid[line], shaped[line] = 0, False, False
        read, stop = int(bounds[line]), int(bounds[line + 1])
        found = np.uint64(0)
        while found == 0 and read < stop:
            found = matches(word(data, read), ord("["))
            read += 8
        if found == 0:
            continue
        at = read - 8 + first_byte(found) + 1
        if at + _STAMP >= stop or data[at + _STAMP] != ord("]"):
            continue
        if before >= 0 and equal(data, before, at, _STAMP):  # lines of one second are neighbours
            ms[line], valid[line], shaped[line] = seconds * 1000, True, True
            continue
        day, year = _digits(data, at, 2), _digits(data, at + 7, 4)
        hour, minute, second = _digits(data, at + 12, 2), _digits(data, at + 15, 2), _digits(data, at + 18, 2)
        ahead, minutes = _digits(data, at + 22, 2), _digits(data, at + 24, 2)
        sign = data[at + 21]
        if min(day, year, hour, minute, second, ahead, minutes) < 0:
            continue
        if data[at + 2] != ord("/") or data[at + 6] != ord("/") or data[at + 11] != ord(":"):
            continue
        if data[at + 14] != ord(":") or data[at + 17] != ord(":") or data[at + 20] != ord(" "):
            continue
        if sign != ord("+") and sign != ord("-"):
            continue
        if data[at + 3] < ord("A") or data[at + 3] > ord("Z"):
            continue
        if min(data[at + 4], data[at + 5]) < ord("a") or max(data[at + 4], data[at + 5]) > ord("z"):
            continue
        shaped[line] = True
        month = 0
        for n in range(12):
            if (
                data[at + 3] == months[3 * n]
                and data[at + 4] == months[3 * n + 1]
                and data[at + 5] == months[3 * n + 2]
            ):
                month = n + 1
        if month == 0 or year < 1970 or year > 9998 or day < 1 or ahead > 23 or minutes > 59:
            continue
        if hour > 23 or minute > 59 or second > 59:
            continue
        first = _days(year, month, 1)
        after = _days(year + 1, 1, 1) if month == 12 else _days(year, month + 1, 1)
        if day > after - first:
            continue
        zone = ahead * 60 + minutes
        seconds = (first + day - 1) * 86400 + hour * 3600 + minute * 60 + second
        seconds += zone * 60 if sign == ord("-") else -zone * 60
        before = at
        ms[line] = seconds * 1000
        valid[line] = True


@compiled
def select(
    codes: Int32s,
    filters: Ints,
    tables: Bytes,
    table_at: Ints,
    mask: Bools,
    period: Ints,
    columns: Ints,
    radices: Ints,
    days: Ints,
    tally: Ints,
    absent: Ints,
    long: Ints,
    rows: Ints,
    combined: Ints,
) -> tuple[int, int, int]:
    """Find the lines that a task counts; combine each one's period and columns to a number.

    `codes[c, line]`: the code of column c. Code v of column `filters[f]` gives its line the flags
    `tables[table_at[f] + v]` (`engine.outcomes`); a line without flags is counted. `mask` (empty: none) says
    which lines the task looks at. Fills `rows` with the lines and `combined` with their numbers (mixed
    radix), and adds to `tally[days[line], flags]`. `absent` and `long` get the first unmatched and too long
    lines, as many as they have room for less one. Returns how many lines are in each of the three.
    """
    found = unmatched = over = 0
    room = len(absent) - 1
    for line in range(len(period)):
        inside = len(mask) == 0 or mask[line]
        flags = np.uint8(0)
        for f in range(len(filters)):
            flags |= tables[table_at[f] + codes[filters[f], line]]
        tally[days[line], flags] += inside
        absent[unmatched] = line
        unmatched += inside and (flags & 6) == 2 and unmatched < room
        long[over] = line
        over += inside and flags == 1 and over < room
        passes = inside and flags == 0
        number = period[line]
        for c in range(len(columns)):
            number = number * radices[c] + codes[columns[c], line]
        # The next line that passes overwrites what one that does not has left: no branch to mispredict.
        rows[found] = line
        combined[found] = number
        found += passes
    return found, unmatched, over


@compiled
def number(combined: Ints, table: Int32s, kept: Ints) -> int:
    """Replace values by dense numbers, in order of first occurrence; returns how many.

    `kept`: the value of each number. `table` has an entry, -1, for each possible value.
    """
    size = 0
    for n in range(len(combined)):
        value = combined[n]
        if table[value] < 0:
            table[value] = size
            kept[size] = value
            size += 1
        combined[n] = table[value]
    return size
