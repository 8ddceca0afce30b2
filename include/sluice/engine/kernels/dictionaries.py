"""Fields cut out of lines straight into dictionaries, in one loop over the bytes (numba).

Each byte of a line is read once, eight at a time. A field goes to its column's hash table at once and leaves
nothing but its code, so that what the loop writes is four bytes a line and column. The twin of this kernel is
pyarrow's split and dictionary_encode (`cut._Split`). Import this module inside the function that needs it.
"""
# ruff: noqa: PLR0917, PLR2004 - a kernel is one loop over arrays that its caller made

from __future__ import annotations

import numpy as np

from sluice.engine.kernels.words import equal, first_byte, leading, matches, word
from sluice.runtime.arrays import Bytes, Hashes, Int32s, Ints
from sluice.runtime.compiled import compiled, inlined

_FOLD = np.uint64(32)


@inlined
def _hash(data: Bytes, at: int, size: int, seed: np.uint64) -> np.uint64:
    """A number of the stretch; stretches of one size up to eight bytes have different ones.

    `seed` is odd and secret. It multiplies, so that nobody can choose values that fall into one slot.
    """
    if size <= 8:
        return leading(word(data, at), size) if size else np.uint64(0)
    hashed = np.uint64(size)
    end = at + size
    while at + 8 < end:
        hashed = (hashed ^ word(data, at)) * seed
        hashed ^= hashed >> _FOLD
        at += 8
    hashed = (hashed ^ word(data, end - 8)) * seed
    return hashed ^ (hashed >> _FOLD)


@inlined
def _slot(hashed: np.uint64, size: int, seed: np.uint64, mask: np.uint64) -> np.uint64:
    """Where the search for a value begins."""
    mixed = (hashed ^ (np.uint64(size) << _FOLD)) * seed
    mixed = (mixed ^ (mixed >> _FOLD)) * seed
    return (mixed >> _FOLD) & mask


@compiled
def enter(table: Int32s, hashes: Hashes, lengths: Int32s, size: int, seed: np.uint64) -> None:
    """Enter the first `size` values into an empty table: 2^j entries of -1."""
    mask = np.uint64(len(table) - 1)
    for code in range(size):
        slot = _slot(hashes[code], lengths[code], seed, mask)
        while table[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = code


@inlined
def _entered(
    data: Bytes,
    begin: int,
    length: int,
    seed: np.uint64,
    at: Ints,
    entries: Ints,
    tables: Int32s,
    hashes: Hashes,
    begins: Int32s,
    lengths: Int32s,
    sizes: Ints,
    k: int,
) -> int:
    """The number of a value of column k, which gets the next one if it is new. See `encode`."""
    table, values = at[k], at[k] // 2
    hashed = _hash(data, begin, length, seed)
    mask = np.uint64(entries[k] - 1)
    slot = _slot(hashed, length, seed, mask)
    code = tables[table + np.int64(slot)]
    while code >= 0 and not (
        hashes[values + code] == hashed
        and lengths[values + code] == length
        and (length <= 8 or equal(data, begin, begins[values + code], length))
    ):
        slot = (slot + np.uint64(1)) & mask
        code = tables[table + np.int64(slot)]
    if code < 0:
        code = sizes[k]
        tables[table + np.int64(slot)] = code
        hashes[values + code], begins[values + code], lengths[values + code] = hashed, begin, length
        sizes[k] += 1
    return int(code)


@compiled
def encode(
    data: Bytes,
    bounds: Int32s,
    line: int,
    delimiter: int,
    wanted: Ints,
    seed: np.uint64,
    at: Ints,
    entries: Ints,
    tables: Int32s,
    hashes: Hashes,
    begins: Int32s,
    lengths: Int32s,
    codes: Int32s,
    sizes: Ints,
) -> int:
    """Number the distinct values of the wanted fields (rising indexes), in order of first occurrence.

    Line n is data[bounds[n]:bounds[n + 1]]. For column k: `sizes[k]` values; the place of each in
    `begins` and `lengths`, from at[k] // 2 on; `codes[k, line]`, which is -1 where the line has no such
    field. Its table are the `entries[k]` (2^j) in `tables` from at[k] on. Begins with `line`; returns the
    line that comes next: after the last one, or as soon as a table is half full and must grow.
    """
    full = False
    while line < len(bounds) - 1 and not full:
        begin, stop = int(bounds[line]), int(bounds[line + 1])
        read, found = begin, np.uint64(0)
        field, k, more = 0, 0, True
        while more and k < len(wanted):
            while found == 0 and read < stop:
                found = matches(word(data, read), delimiter)
                read += 8
            end = read - 8 + first_byte(found) if found else stop
            found &= found - np.uint64(1)
            if end >= stop:
                end, more = stop, False
            if field == wanted[k]:
                code = _entered(
                    data, begin, end - begin, seed, at, entries, tables, hashes, begins, lengths, sizes, k
                )
                full |= 2 * sizes[k] >= entries[k]
                codes[k, line] = code
                k += 1
            field += 1
            begin = end + 1
        while k < len(wanted):
            codes[k, line] = -1
            k += 1
        line += 1
    return line


@compiled
def encode_stretches(
    data: Bytes,
    starts: Int32s,
    sizes_of: Int32s,
    line: int,
    seed: np.uint64,
    at: Ints,
    entries: Ints,
    tables: Int32s,
    hashes: Hashes,
    begins: Int32s,
    lengths: Int32s,
    codes: Int32s,
    sizes: Ints,
) -> int:
    """The same for one column, whose fields were found before: `sizes_of[n]` bytes from starts[n] on.

    A line whose size is below 1 has no such field.
    """
    full = False
    while line < len(starts) and not full:
        code = -1
        if sizes_of[line] > 0:
            code = _entered(
                data,
                int(starts[line]),
                int(sizes_of[line]),
                seed,
                at,
                entries,
                tables,
                hashes,
                begins,
                lengths,
                sizes,
                0,
            )
            full = 2 * sizes[0] >= entries[0]
        codes[0, line] = code
        line += 1
    return line


@compiled
def copy(data: Bytes, begins: Int32s, offsets: Int32s, out: Bytes) -> None:
    """The values one after the other in `out`, each at its offset."""
    for n in range(len(begins)):
        source = begins[n]
        for at in range(offsets[n], offsets[n + 1]):
            out[at] = data[source]
            source += 1
