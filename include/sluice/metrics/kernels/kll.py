"""Quantile sketches of all series at once: all values while they are few, then KLL.

A row's words, 8 bytes each, begin with the number of levels. With one level, its values follow in ascending
order. With more, these follow: the errors `BIAS`, `WORST` and `SPREAD`, the least and the greatest value, the
size of each level, and the values of each level. A value of level i stands for 2^i values.

- A batch of more than `EXACT` values is sorted and cut into runs of 2^i; the middle of each stands for it.
  Any rank is then wrong by at most half a run: `BIAS`, which adds up over the batches.
- Merging puts levels together. A level that is over its capacity is sorted, and every second value of it
  moves up a level; a coin decides whether these are the odd or the even ones. Any rank is then wrong by 2^i
  or, half of the time, not at all: 2^i is added to `WORST` and 4^i to `SPREAD` (the sum of the variances).

So the error is known for each sketch, not just for the worst of all (`_estimate` combines the three). The
coin is computed from the number of values, the level and the values: the same batches in the same order give
the same sketch. Source: Karnin, Lang, Liberty, Optimal quantile approximation in streams, 2016.
"""

from __future__ import annotations

import numpy as np

from sluice.runtime.arrays import Floats, Ints
from sluice.runtime.compiled import compiled

Levels = Floats  # level, position

#: A series keeps all of its values up to this many: 8 KiB.
EXACT = 1024
#: The capacity of the top level; each level below has 2/3 of the next, at least `_LEAST`. In all 10 KiB.
K = 400
_LEAST = 8
#: A batch becomes at most this many runs: half a run is then at most 1/800 of the batch's values.
_RUNS = 2 * K
_LEVELS = 60
_TALLEST = 50  # levels of 2^58 values
_FEW = 32  # values that are put in order by insertion
_ROOM = 4 * EXACT  # a level during a merge: its own values, a row's, and what moves up from below
_ERRORS = 5  # words between the number of levels and their sizes

_BIAS, _WORST, _SPREAD, _LOW, _HIGH = range(_ERRORS)
#: How many standard deviations an error may have. For the worst values, less than 1 in 1,000 is larger; for
#: others 1 in a million, because half of the merges at a level do not change their rank.
_DEVIATIONS = 3.5


@compiled
def add(values: Floats, bounds: Ints) -> tuple[Ints, Ints]:
    """Values by group, ascending (`Batch.ascending`), to states: their words and bounds."""
    size = len(bounds) - 1
    most = np.zeros(size + 1, np.int64)
    for group in range(size):
        count = bounds[group + 1] - bounds[group]
        room = 0 if count == 0 else 1 + count
        if count > EXACT:
            room = 1 + _ERRORS + 2 * _LEVELS + _RUNS
        most[group + 1] = most[group] + room
    words, ends = np.empty(most[size], np.int64), np.zeros(size + 1, np.int64)
    floats = words.view(np.float64)
    for group in range(size):
        own, at = values[bounds[group] : bounds[group + 1]], ends[group]
        if len(own) == 0:
            ends[group + 1] = at
        elif len(own) <= EXACT:
            words[at] = 1
            for i in range(len(own)):
                floats[at + 1 + i] = own[i]
            ends[group + 1] = at + 1 + len(own)
        else:
            ends[group + 1] = _sample(own, words, floats, at)
    return words[: ends[size]].copy(), ends


@compiled
def _sample(own: Floats, words: Ints, floats: Floats, at: int) -> int:
    """Write the sorted values of a large group as a state; returns its end.

    They are cut into runs of equal length, and the rest into smaller runs.
    """
    top = 0
    while len(own) >> top > _RUNS:
        top += 1
    run = 1 << top
    runs = len(own) // run
    rest = len(own) - runs * run
    words[at] = top + 1
    floats[at + 1 + _BIAS] = run / 2
    floats[at + 1 + _WORST] = floats[at + 1 + _SPREAD] = 0.0
    floats[at + 1 + _LOW], floats[at + 1 + _HIGH] = own[0], own[-1]
    sizes = at + 1 + _ERRORS
    end = sizes + top + 1
    position = runs * run  # the rest has the greatest values: the tail is kept finer
    for level in range(top):
        words[sizes + level] = (rest >> level) & 1
    for level in range(top):
        if words[sizes + level]:
            floats[end] = own[position + ((1 << level) >> 1)]
            position += 1 << level
            end += 1
    words[sizes + top] = runs
    for i in range(runs):
        floats[end] = own[i * run + (run >> 1)]
        end += 1
    return end


@compiled
def merge(words: Ints, bounds: Ints, order: Ints, groups: Ints) -> tuple[Ints, Ints, bool]:
    """Merge rows of states by group. False: a row is damaged.

    `order` and `groups` (bounds) are those of `rows.by_group`.
    """
    size = len(groups) - 1
    floats = words.view(np.float64)
    most = np.zeros(size + 1, np.int64)
    for group in range(size):
        total, exact, filled = 1, True, 0
        for i in range(groups[group], groups[group + 1]):
            start, end = bounds[order[i]], bounds[order[i] + 1]
            if not _sound(words, floats, start, end):
                return np.empty(0, np.int64), most, False
            if end > start:
                filled += 1
                total += end - start - 1
                exact = exact and words[start] == 1
        if filled > 1 and not (exact and total <= EXACT + 1):
            total = 1 + _ERRORS + _LEVELS + _ROOM
        most[group + 1] = most[group] + (0 if filled == 0 else total)
    merged, ends = np.empty(most[size], np.int64), np.zeros(size + 1, np.int64)
    merged_floats = merged.view(np.float64)
    levels, sizes = np.empty((_LEVELS, _ROOM), np.float64), np.empty(_LEVELS, np.int64)
    errors = np.empty(_ERRORS, np.float64)
    for group in range(size):
        at, room = ends[group], most[group + 1] - most[group]
        if room == 1 + _ERRORS + _LEVELS + _ROOM:
            height = _merge_levels(
                words, floats, bounds, order[groups[group] : groups[group + 1]], levels, sizes, errors
            )
            ends[group + 1] = _store(merged, merged_floats, at, levels, sizes, height, errors)
        elif room == 0:
            ends[group + 1] = at
        else:
            ends[group + 1] = _merge_exact(
                words, floats, bounds, order[groups[group] : groups[group + 1]], merged, merged_floats, at
            )
    return merged[: ends[size]].copy(), ends, True


@compiled
def _sound(words: Ints, floats: Floats, start: int, end: int) -> bool:
    """Whether a row has the form that this module writes; an empty row has."""
    if end == start or words[start] == 1:
        return end - start <= EXACT + 1
    height = words[start]
    if not 1 < height <= _TALLEST or end - start < 1 + _ERRORS + height:
        return False
    total = 0
    for level in range(height):
        held = words[start + 1 + _ERRORS + level]
        if not 0 <= held <= 2 * EXACT:
            return False
        total += held
    return total <= 2 * EXACT and end - start == 1 + _ERRORS + height + total


@compiled
def _merge_exact(
    words: Ints, floats: Floats, bounds: Ints, rows: Ints, merged: Ints, merged_floats: Floats, at: int
) -> int:
    """Write all values of a group that keeps all, or its only row; returns the end."""
    count, single = 0, True
    for row in rows:
        start, end = bounds[row], bounds[row + 1]
        if end > start:
            single = count == 0
            if single:
                for i in range(end - start):
                    merged[at + i] = words[start + i]
                count = end - start
            else:
                for i in range(1, end - start):
                    merged_floats[at + count] = floats[start + i]
                    count += 1
    if not single:
        _sort(merged_floats[at + 1 : at + count])
    return at + count


@compiled
def _sort(values: Floats) -> None:
    """Sort in place; most series are small."""
    if len(values) > _FEW:
        values.sort()
        return
    for i in range(1, len(values)):
        value, at = values[i], i
        while at and values[at - 1] > value:
            values[at] = values[at - 1]
            at -= 1
        values[at] = value


@compiled
def _merge_levels(
    words: Ints, floats: Floats, bounds: Ints, rows: Ints, levels: Levels, sizes: Ints, errors: Floats
) -> int:
    """Put the rows together in `levels`, `sizes` and `errors`; returns the number of levels."""
    height, total = 1, 0  # the number of values that the levels stand for
    sizes[:] = 0
    errors[:] = 0.0
    errors[_LOW], errors[_HIGH] = np.inf, -np.inf
    for row in rows:
        start, end = bounds[row], bounds[row + 1]
        if end == start:
            continue
        if words[start] == 1:
            count = end - start - 1
            levels[0, sizes[0] : sizes[0] + count] = floats[start + 1 : end]
            sizes[0] += count
            total += count
            if count:
                errors[_LOW] = min(errors[_LOW], floats[start + 1])
                errors[_HIGH] = max(errors[_HIGH], floats[end - 1])
        else:
            own = start + 1
            for i in range(_LOW):
                errors[i] += floats[own + i]
            errors[_LOW] = min(errors[_LOW], floats[own + _LOW])
            errors[_HIGH] = max(errors[_HIGH], floats[own + _HIGH])
            at = own + _ERRORS + words[start]
            for level in range(words[start]):
                count = words[own + _ERRORS + level]
                levels[level, sizes[level] : sizes[level] + count] = floats[at : at + count]
                sizes[level] += count
                total += count << level
                at += count
            height = max(height, words[start])
        height = _compress(levels, sizes, height, total, errors)
    return height


@compiled
def _compress(levels: Levels, sizes: Ints, height: int, total: int, errors: Floats) -> int:
    """Move values up until all levels together have room; returns the number of levels."""
    while sizes[:height].sum() > _capacity(height):
        level, room = 0, _level_capacity(0, height)
        while sizes[level] <= room:
            level += 1
            room = _level_capacity(level, height)
        if level == height - 1:
            height += 1
        own, kept = levels[level, : sizes[level]], sizes[level] & 1
        own.sort()
        moved = sizes[level] - kept
        first = _coin(total, level, own)
        above = sizes[level + 1]
        for i in range(first, moved, 2):
            levels[level + 1, above] = own[i]
            above += 1
        sizes[level + 1] = above
        if kept:  # the greatest value stays: the tail is kept finer
            own[0] = own[moved]
        sizes[level] = kept
        errors[_WORST] += 2.0**level
        errors[_SPREAD] += 4.0**level
    return height


@compiled
def _level_capacity(level: int, height: int) -> int:
    return EXACT if height == 1 else max(_LEAST, int(K * (2.0 / 3.0) ** (height - 1 - level)))


@compiled
def _capacity(height: int) -> int:
    total = 0
    for level in range(height):
        total += _level_capacity(level, height)
    return total


@compiled
def _coin(total: int, level: int, own: Floats) -> int:
    """0 or 1, by splitmix64."""
    sample = np.empty(3, np.float64)
    sample[0], sample[1], sample[2] = own[0], own[len(own) // 2], own[-1]
    bits = sample.view(np.uint64)
    mixed = np.uint64(total) * np.uint64(64) + np.uint64(level)
    for i in range(4):
        mixed += np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
        if i < len(bits):
            mixed ^= bits[i]
    return int(mixed >> np.uint64(63))


@compiled
def _store(
    merged: Ints, merged_floats: Floats, at: int, levels: Levels, sizes: Ints, height: int, errors: Floats
) -> int:
    """Write a merged state; returns its end."""
    merged[at] = height
    if height > 1:
        merged_floats[at + 1 : at + 1 + _ERRORS] = errors
        at += _ERRORS
        merged[at + 1 : at + 1 + height] = sizes[:height]
        at += height
    else:
        levels[0, : sizes[0]].sort()
    at += 1
    for level in range(height):
        merged_floats[at : at + sizes[level]] = levels[level, : sizes[level]]
        at += sizes[level]
    return at


@compiled
def read(words: Ints, bounds: Ints, part: int, whole: int) -> tuple[Floats, Floats, bool]:
    """The quantile part/whole of each row (NaN: no values) and its error.

    The quantile is the least value such that at least that part of all values is no greater. The error is how
    far the true quantile may be from it, in the unit of the values: 0 while all values are kept. False: a row
    is damaged.
    """
    floats = words.view(np.float64)
    rows = len(bounds) - 1
    values, errors = np.full(rows, np.nan), np.zeros(rows, np.float64)
    for row in range(rows):
        start, end = bounds[row], bounds[row + 1]
        if not _sound(words, floats, start, end):
            return values, errors, False
        if end - start <= 1:
            continue
        if words[start] == 1:
            values[row] = floats[start + _rank(end - start - 1, part, whole)]
        else:
            values[row], errors[row] = _estimate(words, floats, start, end, part, whole)
    return values, errors, True


@compiled
def _rank(count: int, part: int, whole: int) -> int:
    """ceil(count * part / whole), without a product that overflows; at least 1."""
    return max(1, count // whole * part + (count % whole * part + whole - 1) // whole)


@compiled
def _estimate(
    words: Ints, floats: Floats, start: int, end: int, part: int, whole: int
) -> tuple[float, float]:
    height, own = words[start], start + 1
    at = own + _ERRORS + height
    samples, weights = floats[at:end], np.empty(end - at, np.int64)
    filled, total = 0, 0
    for level in range(height):
        held = words[own + _ERRORS + level]
        weights[filled : filled + held] = 1 << level
        filled += held
        total += held << level
    spread = _DEVIATIONS * np.sqrt(floats[own + _SPREAD])
    wrong = int(np.ceil(floats[own + _BIAS] + min(spread, floats[own + _WORST])))
    rank = _rank(total, part, whole)
    low, value, high = floats[own + _LOW], floats[own + _HIGH], floats[own + _HIGH]
    passed, order = 0, np.argsort(samples)
    for i in order:
        before = passed
        passed += weights[i]
        if before < rank - wrong <= passed:
            low = samples[i]
        if before < rank <= passed:
            value = samples[i]
        if before < rank + wrong <= passed:
            high = samples[i]
    return value, max(value - low, high - value)
