"""A version's SERIES in the order of time, from both sides, a piece at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sluice.results.layers import Layers
from sluice.results.rows import FINAL, OPEN, STATES, SUPERSEDED
from sluice.runtime.arrays import Ints
from sluice.state.portions import portions
from sluice.state.series import START, in_order, together
from sluice.storage.tables.finals import FinalBlock, FinalRange, Sides
from sluice.tasks.spec import ActiveTask

#: Open periods are read in portions of up to OPEN_BYTES of packed blocks, each as of one commit.
OPEN_BYTES = 32 << 20
#: Each state's code, as often as a piece may have rows; they take no memory.
_ALIKE = [np.broadcast_to(np.int64(state), 1 << 40) for state in range(len(STATES))]


class SeriesPiece(NamedTuple):
    """SERIES in order and in one piece, and where each row's period is from.

    What has a name never changes, and its rows have one state.
    """

    rows: pa.Table
    states: Ints  # codes of rows.STATES
    commit: int  # of the open periods
    run_id: str  # of the others; empty if all are open
    name: str = ""


class Pieces:
    """The periods that start in [since, until), each from its side; `sides` are those of this time.

    Periods follow each other; a period may go on in the next piece.
    """

    def __init__(
        self,
        layers: Layers,
        task: ActiveTask,
        sides: Sides,
        since: int,
        until: int,
        *,
        recounted: set[int] | None = None,
    ) -> None:
        """recounted: gets the periods that turn out to be counted again while this reads."""
        self._layers, self._task, self._sides = layers, task, sides
        self._recounted = set() if recounted is None else recounted
        self._since, self._until = since, until
        self._waiting: tuple[pa.Table, int, str] | None = None
        self._opened = self._open()

    def __iter__(self) -> Iterator[SeriesPiece]:
        for each in self._sides.final:
            yield from self._before(each.first)
            if each.first in self._sides.superseded:
                yield from self._superseded(each)
            else:
                for rows, name in self._blocks(each):
                    yield SeriesPiece(rows, _all(FINAL, rows), 0, each.run_id, name)
        yield from self._before(None)

    def _blocks(self, of: FinalRange) -> Iterator[tuple[pa.Table, str]]:
        """The range's SERIES in order, and the names of the blocks that they are."""
        wanted = [b for b in of.blocks if b.last >= self._since and b.first < self._until]
        tables = self._layers.final(self._task, wanted)
        if _in_time(wanted):
            yield from ((rows, block.row) for rows, block in zip(tables, wanted, strict=True))
        else:
            yield in_order(together(list(tables))), ""

    def _superseded(self, of: FinalRange) -> Iterator[SeriesPiece]:
        """The range's blocks, and the periods that had no line yet when it was published."""
        tables = [rows for rows, _ in self._blocks(of)]
        known = np.unique(np.concatenate([_starts(each) for each in tables] or [np.empty(0, np.int64)]))
        found, states, commit = tables, [_all(SUPERSEDED, each) for each in tables], 0
        for piece in self._before(of.until):
            new = ~np.isin(_starts(piece.rows), known)
            found = [*found, piece.rows.filter(pa.array(new))]
            states.append(np.full(int(new.sum()), OPEN))
            commit = piece.commit
        if found:
            rows, codes = together(found), np.concatenate(states)
            marked = in_order(rows.append_column("state", pa.array(codes)))
            codes = marked.column("state").to_numpy()
            yield SeriesPiece(marked.drop_columns(["state"]), codes, commit, of.run_id)

    def _before(self, limit: int | None) -> Iterator[SeriesPiece]:
        """What is open before this start and was not given yet."""
        while (waiting := self._waiting or next(self._opened, None)) is not None:
            rows, commit, name = waiting
            end = rows.num_rows if limit is None else int(np.searchsorted(_starts(rows), limit))
            if end == rows.num_rows:
                yield SeriesPiece(rows, _all(OPEN, rows), commit, "", name)
                self._waiting = None
                continue
            if end:
                yield SeriesPiece(rows.slice(0, end), np.full(end, OPEN), commit, "")
            self._waiting = rows.slice(end), commit, ""
            return

    def _open(self) -> Iterator[tuple[pa.Table, int, str]]:
        """The open periods' SERIES with their commit and name; each portion is as of one commit."""
        sides = self._sides
        total = sum([period.bytes for period in sides.state.values()])
        total += sum([pointer.bytes for own in sides.filled.values() for pointer in own])
        whole = [sides.open] if sides.open else []  # as mostly: one portion, and no look at each period
        for starts in whole if total <= OPEN_BYTES else portions(sides.open, self._size, OPEN_BYTES):
            opened = self._layers.open(self._task, self._sides, starts)
            self._recounted |= opened.recounted
            if not opened.parts:
                yield opened.rows.combine_chunks(), opened.commit, ""
            for part in opened.parts:
                yield part.rows, opened.commit, part.name

    def _size(self, start: int) -> int:
        state = self._sides.state.get(start)
        filled = sum(pointer.bytes for pointer in self._sides.filled.get(start, ()))
        return filled + (state.bytes if state is not None else 0)


def _in_time(blocks: Sequence[FinalBlock]) -> bool:
    return all(b.first >= a.last for a, b in pairwise(blocks))


def _all(state: int, rows: pa.Table) -> Ints:
    return _ALIKE[state][: rows.num_rows]


def _starts(rows: pa.Table) -> Ints:
    starts: Ints = rows.column(START).to_numpy()
    return starts
