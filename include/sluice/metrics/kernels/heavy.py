"""The most frequent texts of all series at once, by Misra-Gries.

A text is identified by its 64-bit hash. A row's bytes: the number of texts and `error`, 8 bytes each; for
each text its hash, its count and its length, 8 bytes each; then the texts, in that order.

All texts are kept while there are at most `CAPACITY` of them, at most `TEXT_BYTES` long together. Beyond
that, the count of the most frequent text that finds no room is subtracted from all counts, texts that are
left with nothing go, and `error` grows by the same number. So every count is too low by at most `error`, and
a missing text has at most that many. Without the limit on bytes, `error` is at most the number of lines /
(CAPACITY + 1), in any order in which states are merged. Source: Agarwal et al., Mergeable summaries, 2012.
"""

from __future__ import annotations

import numpy as np

from sluice.runtime.arrays import Bytes, Hashes, Ints
from sluice.runtime.compiled import compiled

#: Several times what top-k shows, so that its error is small. With `TEXT_BYTES`, at most 36 KiB a series.
CAPACITY = 512
TEXT_BYTES = 24 << 10
_HEAD, _ENTRY = 16, 24


@compiled
def _read(data: Bytes, at: int) -> np.uint64:
    found = np.uint64(0)
    for i in range(8):
        found |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return found


@compiled
def _number(data: Bytes, at: int) -> int:
    return np.int64(_read(data, at))  # type: ignore[return-value]


@compiled
def _write(data: Bytes, at: int, word: np.uint64) -> None:
    for i in range(8):
        data[at + i] = np.uint8((word >> np.uint64(8 * i)) & np.uint64(0xFF))


@compiled
def _cut(counts: Ints, lengths: Ints) -> np.int64:
    """What to subtract from all counts so that the rest finds room; 0: nothing."""
    least = np.int64(0)
    if len(counts) > CAPACITY:
        least = np.partition(counts, len(counts) - CAPACITY - 1)[len(counts) - CAPACITY - 1]
    total, size = 0, 0
    for i in range(len(counts)):
        if counts[i] > least:
            total += lengths[i]
            size += 1
    if total <= TEXT_BYTES:
        return least
    kept, at = np.empty(size, np.int64), 0
    for i in range(len(counts)):
        if counts[i] > least:
            kept[at] = i
            at += 1
    order = np.argsort(-counts[kept])
    total = 0
    for i in order:
        total += lengths[kept[i]]
        if total > TEXT_BYTES:
            return np.int64(counts[kept[i]])
    return least


@compiled
def add(data: Bytes, texts: Ints, hashes: Hashes, pairs: tuple[Ints, Ints, Ints]) -> tuple[Bytes, Ints]:
    """Texts counted by group (`rows.pairs`) to states: their bytes and bounds.

    `data`, `texts`: the bytes of the distinct texts and their bounds; `hashes`: the hash of each.
    """
    codes, counts, bounds = pairs
    size = len(bounds) - 1
    cuts, ends = np.zeros(size, np.int64), np.zeros(size + 1, np.int64)
    for group in range(size):
        first, last = bounds[group], bounds[group + 1]
        total = 0
        for pair in range(first, last):
            total += texts[codes[pair] + 1] - texts[codes[pair]]
        number = last - first
        if number > CAPACITY or total > TEXT_BYTES:
            own = codes[first:last]
            cuts[group] = _cut(counts[first:last], texts[own + 1] - texts[own])
            total = number = 0
            for pair in range(first, last):
                if counts[pair] > cuts[group]:
                    number += 1
                    total += texts[codes[pair] + 1] - texts[codes[pair]]
        ends[group + 1] = ends[group]
        if last > first:
            ends[group + 1] += _HEAD + number * _ENTRY + total
    out = np.empty(ends[size], np.uint8)
    for group in range(size):
        at, number = ends[group] + _HEAD, 0
        for pair in range(bounds[group], bounds[group + 1]):
            if counts[pair] > cuts[group]:
                code = codes[pair]
                _write(out, at, hashes[code])
                _write(out, at + 8, np.uint64(counts[pair] - cuts[group]))
                _write(out, at + 16, np.uint64(texts[code + 1] - texts[code]))
                at += _ENTRY
                number += 1
        if bounds[group + 1] > bounds[group]:
            _write(out, ends[group], np.uint64(number))
            _write(out, ends[group] + 8, np.uint64(cuts[group]))
        for pair in range(bounds[group], bounds[group + 1]):
            if counts[pair] > cuts[group]:
                for i in range(texts[codes[pair]], texts[codes[pair] + 1]):
                    out[at] = data[i]
                    at += 1
    return out, ends


@compiled
def sound(data: Bytes, start: int, end: int) -> bool:
    """Whether a row has the form that this module writes; an empty row has."""
    if end == start:
        return True
    if end - start < _HEAD:
        return False
    number = _number(data, start)
    if not 0 <= number <= CAPACITY or end - start < _HEAD + number * _ENTRY:
        return False
    total = 0
    for i in range(number):
        length = _number(data, start + _HEAD + i * _ENTRY + 16)
        if not 0 <= length <= TEXT_BYTES:
            return False
        total += length
    return total <= TEXT_BYTES and end - start == _HEAD + number * _ENTRY + total


@compiled
def merge(data: Bytes, bounds: Ints, order: Ints, groups: Ints) -> tuple[Bytes, Ints, bool]:
    """Merge rows of states by group. False: a row is damaged.

    `order` and `groups` (bounds) are those of `rows.by_group`.
    """
    size = len(groups) - 1
    most, largest = np.zeros(size + 1, np.int64), 0
    for group in range(size):
        room, number = 0, 0
        for i in range(groups[group], groups[group + 1]):
            start, end = bounds[order[i]], bounds[order[i] + 1]
            if not sound(data, start, end):
                return np.empty(0, np.uint8), most, False
            room += end - start
            if end > start:
                number += _number(data, start)
        largest = max(largest, number)
        most[group + 1] = most[group] + min(room, _HEAD + CAPACITY * _ENTRY + TEXT_BYTES)
    out, ends = np.empty(most[size], np.uint8), np.zeros(size + 1, np.int64)
    hashes, counts, places = (
        np.empty(largest, np.uint64),
        np.empty(largest, np.int64),
        np.empty(largest, np.int64),
    )
    lengths = np.empty(largest, np.int64)
    for group in range(size):
        at, filled, error, number = ends[group], 0, 0, 0
        for i in range(groups[group], groups[group + 1]):
            start, end = bounds[order[i]], bounds[order[i] + 1]
            if end == start:
                continue
            filled += 1
            entries = _number(data, start)
            error += _number(data, start + 8)
            text = start + _HEAD + entries * _ENTRY
            for entry in range(start + _HEAD, start + _HEAD + entries * _ENTRY, _ENTRY):
                hashes[number], counts[number] = _read(data, entry), _number(data, entry + 8)
                lengths[number], places[number] = _number(data, entry + 16), text
                text += lengths[number]
                number += 1
            if filled == 1:
                only, only_end = start, end
        if filled == 0:
            ends[group + 1] = at
        elif filled == 1:
            for i in range(only, only_end):
                out[at + i - only] = data[i]
            ends[group + 1] = at + only_end - only
        else:
            by_hash = np.argsort(hashes[:number])
            ends[group + 1] = _write_merged(out, at, data, (hashes, counts, lengths, places), by_hash, error)
    return out[: ends[size]].copy(), ends, True


@compiled
def _write_merged(
    out: Bytes, at: int, data: Bytes, entries: tuple[Hashes, Ints, Ints, Ints], by_hash: Ints, error: int
) -> int:
    """Write one group's entries, `by_hash` in order, as a state; returns its end."""
    hashes, counts, lengths, places = entries
    number = 0
    which, summed = np.empty(len(by_hash), np.int64), np.empty(len(by_hash), np.int64)
    for i in by_hash:
        if number and hashes[which[number - 1]] == hashes[i]:
            summed[number - 1] += counts[i]
        else:
            which[number], summed[number] = i, counts[i]
            number += 1
    which, summed = which[:number], summed[:number]
    cut = _cut(summed, lengths[which])
    kept = 0
    for i in range(number):
        kept += summed[i] > cut
    _write(out, at, np.uint64(kept))
    _write(out, at + 8, np.uint64(error + cut))
    at += _HEAD
    text = at + kept * _ENTRY
    for i in range(number):
        if summed[i] > cut:
            entry = which[i]
            _write(out, at, hashes[entry])
            _write(out, at + 8, np.uint64(summed[i] - cut))
            _write(out, at + 16, np.uint64(lengths[entry]))
            at += _ENTRY
            for j in range(places[entry], places[entry] + lengths[entry]):
                out[text] = data[j]
                text += 1
    return text


@compiled
def top(data: Bytes, bounds: Ints, k: int) -> tuple[Ints, Ints, Ints, Ints, Ints, bool]:
    """The `k` most frequent texts of each row, the most frequent first, ties by text.

    Returns where each row's texts begin in the next three arrays (rows + 1); where each text begins and ends
    in `data`; its count; and each row's error, -1 if there is no state. False: a row is damaged.
    """
    rows = len(bounds) - 1
    ends, errors = np.zeros(rows + 1, np.int64), np.full(rows, -1)
    for row in range(rows):
        if not sound(data, bounds[row], bounds[row + 1]):
            return ends, errors, errors, errors, errors, False
        number = 0
        if bounds[row + 1] > bounds[row]:
            number = min(k, _number(data, bounds[row]))
            errors[row] = _number(data, bounds[row] + 8)
        ends[row + 1] = ends[row] + number
    froms, tos = np.empty(ends[rows], np.int64), np.empty(ends[rows], np.int64)
    counts = np.empty(ends[rows], np.int64)
    for row in range(rows):
        base, held = ends[row], 0  # the best so far, in order, are base .. base + held - 1
        room = ends[row + 1] - base
        if room == 0:
            continue
        start = bounds[row] + _HEAD
        number = _number(data, bounds[row])
        text = start + number * _ENTRY
        for entry in range(start, start + number * _ENTRY, _ENTRY):
            count, length = _number(data, entry + 8), _number(data, entry + 16)
            at = base + held
            while at > base and _before(
                data, count, text, length, counts[at - 1], froms[at - 1], tos[at - 1]
            ):
                at -= 1
            if at < base + room:
                for i in range(min(base + held, base + room - 1), at, -1):
                    counts[i], froms[i], tos[i] = counts[i - 1], froms[i - 1], tos[i - 1]
                counts[at], froms[at], tos[at] = count, text, text + length
                held = min(held + 1, room)
            text += length
    return ends, froms, tos, counts, errors, True


@compiled
def _before(data: Bytes, count: int, text: int, length: int, other: int, start: int, end: int) -> bool:
    if count != other:
        return count > other
    for i in range(min(length, end - start)):
        if data[text + i] != data[start + i]:
            return bool(data[text + i] < data[start + i])
    return length < end - start
