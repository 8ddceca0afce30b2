"""The engine's loops over lines in machine code (numba): cutting, reading stamps, grouping.

Each has a twin in numpy and pyarrow, which small batches use: numba needs half a second to load, once a
process, and a batch of a few thousand lines is done by then. The tests compare the twins.
Import this module inside the function that needs it.
"""
# ruff: noqa: PLR0912, PLR0917, PLR2004 - a kernel is one loop over arrays that its caller made

from __future__ import annotations

import numpy as np

from sluice.metrics.kernels.compiled import compiled
from sluice.runtime.arrays import Bools, Bytes, Int32s, Ints

_ZERO, _NINE = 48, 57
_STAMP = 26  # the characters of 17/May/2015:10:05:03 +0000


@compiled
def cut(data: Bytes, starts: Ints, ends: Ints, delimiter: int, wanted: Ints, begin: Ints, end: Ints) -> None:
    """Where the wanted fields of each line begin and end: begin[k, line] and end[k, line].

    `wanted`: their indexes, in rising order. A field that the line does not have begins at -1.
    """
    for line in range(len(starts)):
        at, stop = starts[line], ends[line]
        field = 0
        for k in range(len(wanted)):
            while field < wanted[k] and at <= stop:
                while at < stop and data[at] != delimiter:
                    at += 1
                at += 1
                field += 1
            if at > stop:
                begin[k, line] = -1
                end[k, line] = -1
                continue
            begin[k, line] = at
            while at < stop and data[at] != delimiter:
                at += 1
            end[k, line] = at
            at += 1
            field += 1


@compiled
def sizes(begin: Ints, end: Ints, offsets: Int32s) -> None:
    """Offsets of an Arrow array that holds these stretches one after the other."""
    total = 0
    offsets[0] = 0
    for n in range(len(begin)):
        total += end[n] - begin[n]
        offsets[n + 1] = total


@compiled
def copy(data: Bytes, begin: Ints, offsets: Int32s, out: Bytes) -> None:
    """Copy the stretches that `sizes` measured."""
    for n in range(len(begin)):
        source = begin[n]
        for at in range(offsets[n], offsets[n + 1]):
            out[at] = data[source]
            source += 1


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
def stamps(
    data: Bytes, starts: Ints, ends: Ints, months: Bytes, ms: Ints, valid: Bools, shaped: Bools
) -> None:
    """Read Apache's stamp after the first bracket of each line.

    `shaped`: whether there is a stamp; `ms`: its time; `valid`: whether that time is real. `months`: the
    twelve names, three bytes each. The years are 1970 to 9998, as in `times`.
    """
    for line in range(len(starts)):
        ms[line], valid[line], shaped[line] = 0, False, False
        at, stop = starts[line], ends[line]
        while at < stop and data[at] != ord("["):
            at += 1
        at += 1
        if at + _STAMP >= stop or data[at + _STAMP] != ord("]"):
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
        ms[line] = seconds * 1000
        valid[line] = True


@compiled
def select(
    codes: Int32s,
    filters: Ints,
    tables: Bools,
    table_at: Ints,
    mask: Bools,
    period: Ints,
    columns: Ints,
    radices: Ints,
    rows: Ints,
    combined: Ints,
) -> int:
    """Find the lines that pass all filters; combine each one's period and columns to a number.

    `codes[c, line]`: the code of column c. Filter f passes code v of column `filters[f]` if
    `tables[table_at[f] + v]`; `mask` (empty: none) is one more filter. Fills `rows` with the lines and
    `combined` with their numbers (mixed radix); returns how many lines there are.
    """
    found = 0
    for line in range(len(period)):
        if len(mask) and not mask[line]:
            continue
        passes = True
        for f in range(len(filters)):
            if not tables[table_at[f] + codes[filters[f], line]]:
                passes = False
                break
        if not passes:
            continue
        number = period[line]
        for c in range(len(columns)):
            number = number * radices[c] + codes[columns[c], line]
        rows[found] = line
        combined[found] = number
        found += 1
    return found


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


@compiled
def encode(
    data: Bytes, begin: Ints, end: Ints, seed: np.uint64, table: Int32s, first: Ints, codes: Ints
) -> int:
    """Number the distinct stretches in order of first occurrence; returns how many there are.

    `codes`: each line's number, -1 if its stretch begins at -1. `first`: the first line of each number.
    `table`: 2^k entries of -1, more than there are lines. Each process has a seed of its own, so that nobody
    can write lines whose hashes collide.
    """
    size = 0
    slots = np.uint64(len(table) - 1)
    for line in range(len(begin)):
        start, stop = begin[line], end[line]
        if start < 0:
            codes[line] = -1
            continue
        hashed = seed
        for at in range(start, stop):
            hashed = (hashed ^ np.uint64(data[at])) * np.uint64(0x100000001B3)
            hashed ^= hashed >> np.uint64(29)
        slot = (hashed ^ (hashed >> np.uint64(32))) & slots
        while True:
            code = table[slot]
            if code < 0:
                table[slot] = size
                first[size] = line
                code = size
                size += 1
                break
            other = begin[first[code]]
            if end[first[code]] - other == stop - start:
                same = True
                for n in range(stop - start):
                    if data[start + n] != data[other + n]:
                        same = False
                        break
                if same:
                    break
            slot = (slot + np.uint64(1)) & slots
        codes[line] = code
    return size
