"""Rows sorted by their group, and the distinct texts of each group."""

from __future__ import annotations

import numpy as np

from sluice.runtime.arrays import Bytes, Floats, Int32s, Ints
from sluice.runtime.compiled import compiled

#: Up to this many cells a line, a table of all (group, text) is faster than a hash table.
_CELLS = 8
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


@compiled
def by_group(groups: Ints, size: int) -> tuple[Ints, Ints]:
    """The rows in the order of their groups (stable), and where each group's begin (size + 1)."""
    bounds = np.zeros(size + 1, np.int64)
    for group in groups:
        bounds[group + 1] += 1
    for group in range(size):
        bounds[group + 1] += bounds[group]
    at = bounds[:-1].copy()
    order = np.empty(len(groups), np.int64)
    for row in range(len(groups)):
        order[at[groups[row]]] = row
        at[groups[row]] += 1
    return order, bounds


@compiled
def values_by_group(values: Floats, rows: Ints, groups: Ints, size: int) -> tuple[Floats, Ints]:
    """The values of `rows` by group, and where each group's begin (size + 1).

    Within a group they keep the order of `rows`. `groups`: the group of each value, -1 if it is in none.
    """
    bounds = np.zeros(size + 1, np.int64)
    for row in rows:
        if groups[row] >= 0:
            bounds[groups[row] + 1] += 1
    for group in range(size):
        bounds[group + 1] += bounds[group]
    at = bounds[:-1].copy()
    ordered = np.empty(bounds[size], np.float64)
    for row in rows:
        group = groups[row]
        if group >= 0:
            ordered[at[group]] = values[row]
            at[group] += 1
    return ordered, bounds


@compiled
def pairs(codes: Ints | Int32s, groups: Ints, size: int, distinct: int) -> tuple[Ints, Ints, Ints]:
    """The distinct codes of each group with their numbers of rows, and the groups' bounds.

    Codes and numbers are in the order of the groups; there are size + 1 bounds. Rows whose code is `distinct`
    have none.
    """
    if size * distinct <= _CELLS * len(codes) + 65_536:
        return _pairs_by_table(codes, groups, size, distinct)
    return _pairs_by_hash(codes, groups, size, distinct)


@compiled
def _pairs_by_table(codes: Ints | Int32s, groups: Ints, size: int, distinct: int) -> tuple[Ints, Ints, Ints]:
    table = np.zeros(size * distinct, np.int32)
    found = 0
    for row in range(len(codes)):
        if codes[row] < distinct:
            cell = groups[row] * distinct + codes[row]
            found += table[cell] == 0
            table[cell] += 1
    pair_codes, counts, bounds = (
        np.empty(found, np.int64),
        np.empty(found, np.int64),
        np.zeros(size + 1, np.int64),
    )
    at = 0
    for group in range(size):
        for code in range(distinct):
            count = table[group * distinct + code]
            if count:
                pair_codes[at], counts[at] = code, count
                at += 1
        bounds[group + 1] = at
    return pair_codes, counts, bounds


@compiled
def _pairs_by_hash(codes: Ints | Int32s, groups: Ints, size: int, distinct: int) -> tuple[Ints, Ints, Ints]:
    bits = 10
    while (1 << bits) < 2 * len(codes):
        bits += 1
    mask, shift = (1 << bits) - 1, np.uint64(64 - bits)
    slots = np.full(1 << bits, -1, np.int64)  # the number of the pair there
    keys, counts = np.empty(len(codes), np.int64), np.zeros(len(codes), np.int64)
    found = 0
    for row in range(len(codes)):
        if codes[row] < distinct:
            key = groups[row] * distinct + codes[row]
            slot = np.int64((np.uint64(key) * _MULTIPLIER) >> shift)
            while slots[slot] >= 0 and keys[slots[slot]] != key:
                slot = (slot + 1) & mask
            if slots[slot] < 0:
                slots[slot], keys[found] = found, key
                found += 1
            counts[slots[slot]] += 1
    owners = keys[:found] // max(distinct, 1)
    order, bounds = by_group(owners, size)
    pair_codes, sorted_counts = np.empty(found, np.int64), np.empty(found, np.int64)
    for i in range(found):
        pair_codes[i] = keys[order[i]] - owners[order[i]] * distinct
        sorted_counts[i] = counts[order[i]]
    return pair_codes, sorted_counts, bounds


@compiled
def gather(data: Bytes, froms: Ints, tos: Ints) -> tuple[Bytes, Ints]:
    """The stretches data[from:to], one after the other, and their bounds."""
    bounds = np.zeros(len(froms) + 1, np.int64)
    for i in range(len(froms)):
        bounds[i + 1] = bounds[i] + tos[i] - froms[i]
    found = np.empty(bounds[-1], np.uint8)
    for i in range(len(froms)):
        for j in range(tos[i] - froms[i]):
            found[bounds[i] + j] = data[froms[i] + j]
    return found, bounds
