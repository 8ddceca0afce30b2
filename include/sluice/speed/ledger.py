"""The byte ledger: which bytes of which front-end file were counted.

Flume delivers at least once and re-reads whole stretches of a file. A line is identified by (host, file,
offset of its first byte), so the counted part of a file is a set of half-open intervals [offset, end). They
are coalesced: a file that was read from its start without a gap has one interval. A line that starts inside
an interval is a double. Bytes outside all intervals are a hole, which means a loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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

    def claim(self, hosts: pa.Array, files: pa.Array, starts: pa.Array | Ints, ends: Ints) -> Bools:
        """Add the lines that were not seen before, and return which lines these are.

        Of several lines in this call that start at the same byte, the first one wins. `ends` is start +
        length of the line + 1 (its newline). Lines without host, file or start have no identity: they are
        always new, and are not kept.
        """
        new = np.ones(len(ends), bool)
        for file, rows, begin in _by_file(hosts, files, starts):
            fresh = ~_inside(*self._of(file), begin)
            fresh[1:] &= begin[1:] != begin[:-1]
            new[rows] = fresh
            self._insert(file, begin[fresh], ends[rows[fresh]])
        return new

    def seen(self, hosts: pa.Array, files: pa.Array, starts: pa.Array | Ints) -> Bools:
        """Which lines start inside an interval."""
        mask = np.zeros(len(hosts), bool)
        for file, rows, begin in _by_file(hosts, files, starts):
            mask[rows] = _inside(*self._of(file), begin)
        return mask

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
        starts = starts.fill_null(0).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(known)
    if not len(rows):
        return
    host, host_names = code(hosts.take(pa.array(rows)))
    file, file_names = code(files.take(pa.array(rows)))
    groups = group([host, file], len(rows))
    begin = starts[rows]
    order = np.lexsort((begin, groups.numbers)) if groups.size > 1 else np.argsort(begin, kind="stable")
    bounds = np.append(0, np.bincount(groups.numbers, minlength=groups.size).cumsum())
    for n in range(groups.size):
        part = order[bounds[n] : bounds[n + 1]]
        name = host_names[int(groups.codes[0][n])].as_py(), file_names[int(groups.codes[1][n])].as_py()
        yield name, rows[part], begin[part]
