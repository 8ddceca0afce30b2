"""The byte ledger: which bytes of which front-end file were counted.

Flume delivers at least once and re-reads whole stretches of a file. A line is identified by (host, file,
offset of its first byte), so the counted part of a file is a set of half-open intervals [offset, end). They
are coalesced: a file that was read from its start without a gap has one interval. A line that starts inside
an interval is a double. Bytes outside all intervals are a hole, which means a loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sluice.engine.groups import code, group
from sluice.runtime.arrays import Bools, Ints

File = tuple[str, str]  # host, src_file

_LITTLE = np.dtype("<i8")
_EMPTY = np.empty(0, np.int64)

#: The schema of the Arrow tables in which executors send their ledgers to the driver.
INTERVALS = pa.schema(
    [
        pa.field("host", pa.string(), nullable=False),
        pa.field("src_file", pa.string(), nullable=False),
        pa.field("start", pa.int64(), nullable=False),
        pa.field("end", pa.int64(), nullable=False),
    ]
)


class BadLedger(ValueError):
    """Stored intervals that are not sorted and disjoint."""


class ByteLedger:
    """For each (host, file) its sorted, disjoint, coalesced intervals, as two int64 arrays."""

    def __init__(self) -> None:
        self._files: dict[File, tuple[Ints, Ints]] = {}

    def claim(
        self,
        hosts: pa.Array,
        files: pa.Array,
        starts: pa.Array | Ints,
        ends: Ints,
        *,
        runs: Ints | None = None,
        known: ByteLedger | None = None,
    ) -> Bools:
        """Add the lines that were not seen before, and return which lines these are.

        Of several lines in this call that start at the same byte, the first one wins. `ends` is start +
        length of the line + 1 (its newline). Lines without host, file or start have no identity: they are
        always new, and are not kept.

        runs: the rows at which the runs begin. A run is lines of one file, each of which starts where the one
        before it ends, as in a record; without `runs` every line is one. A run that is new as a whole costs
        as much as a line. known: another ledger, whose lines are not new either, and are not added.
        """
        lines = len(ends)
        runs = np.arange(lines) if runs is None else runs
        after = np.append(runs[1:], lines)  # the row after each run
        new = np.ones(lines, bool)
        at, every = pa.array(runs), _numbers(starts)
        heads = starts.take(at) if isinstance(starts, pa.Array) else starts[runs]
        for file, own, begin in _by_file(hosts.take(at), files.take(at), heads):
            reach = ends[after[own] - 1]
            seen = [self._of(file)] if known is None else [self._of(file), known._of(file)]
            doubtful = _overlapping(begin, reach, seen)
            rows = _rows_of(runs[own[doubtful]], after[own[doubtful]])
            rows = rows[np.lexsort((rows, every[rows]))]
            points = every[rows]
            fresh = ~np.logical_or.reduce([_inside(*spans, points) for spans in seen])
            fresh[1:] &= points[1:] != points[:-1]
            new[rows] = fresh
            kept, whole = rows[fresh], ~doubtful
            self._insert(file, np.append(begin[whole], every[kept]), np.append(reach[whole], ends[kept]))
        return new

    def add(self, hosts: pa.Array, files: pa.Array, starts: pa.Array | Ints, ends: Ints) -> None:
        """Add the lines' intervals; lines without identity are left out."""
        for file, rows, begin in _by_file(hosts, files, starts):
            self._insert(file, begin, ends[rows])

    def update(self, other: ByteLedger) -> None:
        """Add all of another ledger's intervals."""
        for file, (starts, ends) in other._files.items():
            self._insert(file, starts, ends)

    def only(self, files: Iterable[File]) -> ByteLedger:
        """The part of the ledger that is about these files."""
        part = ByteLedger()
        part._files = {file: self._files[file] for file in files if file in self._files}
        return part

    def files(self) -> list[File]:
        return sorted(self._files)

    def covered(self, host: str, file: str) -> int:
        """How many bytes of the file were counted."""
        starts, ends = self._of((host, file))
        return int((ends - starts).sum())

    def end(self, host: str, file: str) -> int:
        """The byte after the last counted one; 0 if none was."""
        return int(self._of((host, file))[1].max(initial=0))

    def holes(self, host: str, file: str, size: int) -> Ints:
        """The uncounted intervals of the file's first `size` bytes, as rows of (start, end)."""
        starts, ends = self._of((host, file))
        gaps = np.column_stack([np.append(0, ends), np.append(starts, size)]).clip(max=size)
        return gaps[gaps[:, 0] < gaps[:, 1]]

    def to_rows(self) -> list[dict[str, Any]]:
        """Rows for the `ledger` table, without their topic."""
        return [
            {
                "host": host,
                "src_file": file,
                "starts": starts.astype(_LITTLE).tobytes(),
                "ends": ends.astype(_LITTLE).tobytes(),
            }
            for (host, file), (starts, ends) in self._files.items()
        ]

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, Any]]) -> ByteLedger:
        """The ledger that `to_rows` turned into these rows. Raises BadLedger."""
        ledger = cls()
        for row in rows:
            starts, ends = (np.frombuffer(row[name], _LITTLE).astype(np.int64) for name in ("starts", "ends"))
            sound = len(starts) == len(ends) and bool(
                (starts < ends).all() and (ends[:-1] < starts[1:]).all()
            )
            if not sound:
                raise BadLedger(
                    f"the ledger of {row['host']}:{row['src_file']} is damaged (its {len(starts)} intervals "
                    "are not sorted and disjoint): restore the row from a backup of the database"
                )
            ledger._files[row["host"], row["src_file"]] = starts, ends
        return ledger

    def to_table(self) -> pa.Table:
        """The intervals as an Arrow table of schema INTERVALS."""
        counts = [len(starts) for starts, _ in self._files.values()]
        columns: list[pa.Array] = [
            pa.array(np.repeat(np.array([file[n] for file in self._files], object), counts), pa.string())
            for n in (0, 1)
        ]
        for n in (0, 1):
            columns.append(pa.array(np.concatenate([_EMPTY, *(pair[n] for pair in self._files.values())])))
        return pa.table(columns, schema=INTERVALS)

    @classmethod
    def from_table(cls, table: pa.Table) -> ByteLedger:
        """The union of a table's intervals, which may overlap and come in any order."""
        ledger = cls()
        hosts, files, starts, ends = (table.column(n).combine_chunks() for n in INTERVALS.names)
        if table.num_rows:
            ledger.add(_whole(hosts), _whole(files), _whole(starts), np.asarray(ends))
        return ledger

    def _of(self, file: File) -> tuple[Ints, Ints]:
        return self._files.get(file, (_EMPTY, _EMPTY))

    def _insert(self, file: File, starts: Ints, ends: Ints) -> None:
        if len(starts):
            old_starts, old_ends = self._of(file)
            self._files[file] = _union(np.append(old_starts, starts), np.append(old_ends, ends))


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column


def _inside(starts: Ints, ends: Ints, points: Ints) -> Bools:
    at = np.searchsorted(starts, points, side="right") - 1
    inside: Bools = at >= 0
    inside[inside] = points[inside] < ends[at[inside]]
    return inside


def _overlapping(begin: Ints, reach: Ints, seen: Sequence[tuple[Ints, Ints]]) -> Bools:
    """Which of the runs [begin, reach), sorted by begin, have a byte of another run or of what was seen."""
    found = np.zeros(len(begin), bool)
    found[1:] = np.maximum.accumulate(reach)[:-1] > begin[1:]
    found[:-1] |= reach[:-1] > begin[1:]
    for starts, ends in seen:
        found |= np.searchsorted(ends, begin, side="right") < np.searchsorted(starts, reach, side="left")
    return found


def _rows_of(begins: Ints, ends: Ints) -> Ints:
    """The rows of the ranges [begin, end), one range after the other."""
    lengths = ends - begins
    before = np.cumsum(lengths) - lengths
    rows: Ints = np.arange(lengths.sum()) + np.repeat(begins - before, lengths)
    return rows


def _numbers(values: pa.Array | Ints) -> Ints:
    if not isinstance(values, pa.Array):
        return values
    numbers: Ints = values.fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _union(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """The intervals sorted, disjoint and coalesced; intervals that touch become one."""
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    first = np.append(True, starts[1:] > reach[:-1])
    return starts[first], reach[np.append(first[1:], True)]


def _by_file(hosts: pa.Array, files: pa.Array, starts: pa.Array | Ints) -> Iterable[tuple[File, Ints, Ints]]:
    """For each file: the rows of its lines, sorted by start and then by row, and their starts."""
    known = hosts.is_valid().to_numpy(zero_copy_only=False) & files.is_valid().to_numpy(zero_copy_only=False)
    if isinstance(starts, pa.Array):
        known &= starts.is_valid().to_numpy(zero_copy_only=False)
    numbers = _numbers(starts)
    rows = np.flatnonzero(known)
    if not len(rows):
        return
    host, host_names = code(hosts.take(pa.array(rows)))
    file, file_names = code(files.take(pa.array(rows)))
    groups = group([host, file], len(rows))
    begin = numbers[rows]
    order = np.lexsort((begin, groups.numbers)) if groups.size > 1 else np.argsort(begin, kind="stable")
    bounds = np.append(0, np.bincount(groups.numbers, minlength=groups.size).cumsum())
    for n in range(groups.size):
        part = order[bounds[n] : bounds[n + 1]]
        name = host_names[int(groups.codes[0][n])].as_py(), file_names[int(groups.codes[1][n])].as_py()
        yield name, rows[part], begin[part]
