"""One read path for results: `read` answers a `Query` from both layers, as Arrow tables, in bounded memory.

Published periods come from final blocks and all others from the committed state, each period from exactly
one of them (`results.layers`). Without an order of its own or a top list, an answer is streamed: memory holds
a few blocks. Those two keep what they sort in memory, at most `shape.MOST_ROWS` series.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.results.answers import PeriodsRead, key_of
from sluice.results.filters import ChosenRows, SeriesFilter, begins_of, bits
from sluice.results.layers import Layers, Remembers
from sluice.results.periods import within
from sluice.results.pieces import Pieces, SeriesPiece
from sluice.results.query import PERIOD, Query
from sluice.results.recounted import states_without, with_recounted
from sluice.results.rows import OPEN, STATES, alike, given, rows_of, schema_of
from sluice.results.shape import MOST_ROWS, ShapePart, TooManyRows, coarser, rolled, topped
from sluice.results.values import StateColumns, with_some
from sluice.runtime.arrays import Bools, Ints
from sluice.state.portions import portions
from sluice.state.series import START, one
from sluice.storage.tables.finals import Sides
from sluice.tasks.spec import ActiveTask

BATCH_ROWS = 65_536
#: Threads make rows in turns, a few pieces at a time. The interpreter runs only one of them anyway, but would
#: change between them at each call to Arrow, which doubled the CPU time of an answer.
TURN, TURN_PIECES = threading.Lock(), 8

#: What an answer says of each period of the task: `commit` if it is open, `run_id` if it was published. One
#: that is being counted again has neither, and no rows.
PERIODS = pa.schema(
    [
        ("period_start", pa.int64()),  # ms since the epoch
        ("state", pa.string()),
        ("commit", pa.int64()),
        ("run_id", pa.string()),
    ]
)


def read(layers: Layers, query: Query) -> list[ResultsAnswer]:
    """Answer the query, one answer for each of its tasks in their order.

    Raises UnknownTask, UnknownVersion and BadQuery at once; TooManyRows and what the stores raise while an
    answer is read.
    """
    tasks = [layers.task(name, query.version) for name in query.tasks]
    for task in tasks:
        query.check(task)
    return [ResultsAnswer(layers, task, query) for task in tasks]


class ResultsAnswer:
    """The results of one task; it can be read once.

    `more` says afterwards whether there are rows behind the query's limit.
    """

    def __init__(self, layers: Layers, task: ActiveTask, query: Query) -> None:
        self.task = task
        self.dimensions = query.kept_dimensions(task)
        self.metrics = query.shown_metrics(task)
        self.schema = schema_of(task, self.dimensions, self.metrics)
        self.more = False
        self._layers, self._query = layers, query
        self._kept = layers.values if isinstance(layers, Remembers) else None
        starts = within(query.since, query.until)
        self._since, self._until = starts.start, starts.stop
        self._only = SeriesFilter(task, self._since, self._until, query.where)
        self._seen: list[PeriodsRead] = []
        self._recounted: set[int] = set()  # periods that are being counted again
        self._given: tuple[int, int] | None = None  # the periods of the first and the last row given

    @property
    def periods(self) -> pa.Table:
        """`PERIODS`: where the rows that were given came from, in order of time.

        These are the task's own periods that passed the filters, from those of the first row to those of the
        last one; if the rows are sorted, all that passed.
        """
        starts = _joined(seen.starts for seen in self._seen)
        codes = _joined(seen.codes for seen in self._seen)
        starts, first = np.unique(starts, return_index=True)
        behind = self._behind(starts)
        starts, first = starts[behind], first[behind]
        sizes = [len(seen.starts) for seen in self._seen]
        commits = np.repeat(np.array([seen.commit for seen in self._seen], np.int64), sizes)
        runs = pa.array([seen.run_id for seen in self._seen], pa.string())
        own = pa.array(np.repeat(np.arange(len(sizes)), sizes)[first])
        is_open = codes[first] == OPEN
        columns = [
            pa.array(starts),
            pa.array(STATES).take(pa.array(codes[first])),
            pa.array(commits[first], mask=~is_open),
            pc.if_else(pa.array(is_open), pa.scalar(None, pa.string()), runs.take(own)),
        ]
        return with_recounted(pa.table(columns, schema=PERIODS), self.recounted)

    @property
    def recounted(self) -> list[int]:
        """The starts (ms) of the task's periods that are counted again, as far as the given rows reach."""
        starts = sorted(self._recounted)
        if not starts or not self.more or self._query.order:
            return starts
        return [s for s, behind in zip(starts, self._behind(np.array(starts)), strict=True) if behind]

    def table(self) -> pa.Table:
        """All rows at once."""
        return pa.Table.from_batches(self.batches(), self.schema)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in batches. Raises TooManyRows."""
        skip, left = self._query.offset, self._query.limit
        for batch in self._batches():
            rows = batch.slice(skip)
            skip = max(0, skip - batch.num_rows)
            page = rows if left is None else rows.slice(0, left)
            if page.num_rows:
                first, last = (page.column(PERIOD)[at].value for at in (0, -1))
                self._given = first if self._given is None else self._given[0], last
            for begin in range(0, page.num_rows, BATCH_ROWS):
                yield page.slice(begin, BATCH_ROWS)
            self.more = page.num_rows < rows.num_rows
            if self.more:
                return
            left = None if left is None else left - page.num_rows

    def _behind(self, starts: Ints) -> Bools:
        """Which of the task's own periods, by their starts, are behind the rows that were given."""
        if self._query.order or self._given is None:
            return np.full(len(starts), bool(self._query.order))
        coarse = coarser(self._query, self.task)
        begins = starts if coarse is None else coarse(starts)
        first, last = self._given
        return (first <= begins) & (begins <= last)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        sides = self._layers.sides(self.task, self._since, self._until)
        self._recounted |= sides.recounted
        made = self._shared(sides) if self._merges else self._plain(sides)
        if not self._query.order:
            yield from made
            return
        yield from self._sorted(map(_as_table, made)).to_batches()

    def _sorted(self, tables: Iterator[pa.Table]) -> pa.Table:
        """All rows in the wanted order; with a limit, only those that can be shown are kept."""
        limit = self._query.limit
        page = None if limit is None else self._query.offset + limit + 1  # one tells whether there are more
        kept = self.schema.empty_table()
        for table in tables:
            kept = pa.concat_tables([kept, table]).unify_dictionaries()
            if page is not None and kept.num_rows > max(page, BATCH_ROWS):
                kept = self._in_order(kept).slice(0, page)
            if kept.num_rows > MOST_ROWS:
                raise TooManyRows("a sort")
        return self._in_order(kept)

    def _in_order(self, table: pa.Table) -> pa.Table:
        keys = [(each.column, each.descending) for each in self._query.order]
        keys += [(name, False) for name in ("period", *self.dimensions) if name not in dict(keys)]
        columns = {name: _sortable(table.column(name)) for name, _ in keys}
        orders = [(name, "descending" if down else "ascending") for name, down in keys]
        return table.take(pc.sort_indices(pa.table(columns), sort_keys=orders))

    @property
    def _merges(self) -> bool:
        query, all_kept = self._query, len(self.dimensions) == len(self.task.spec.dimensions)
        return not all_kept or query.period is not None or query.top is not None

    def _shared(self, sides: Sides) -> Iterator[pa.RecordBatch]:
        """The merged series, which are made once for all who ask the same."""
        made = self._merged(sides)
        if not isinstance(self._layers, Remembers):
            return made
        return self._layers.answers.of(key_of(self.task, self._query, sides), made, self._seen)

    def _plain(self, sides: Sides) -> Iterator[pa.RecordBatch]:
        """The series as they are stored; what is made of those with a name is kept for the next answer."""
        for some in self._pieces(sides):
            with TURN:
                made = [rows for piece in some for rows in self._rows(piece)]
            yield from made

    def _rows(self, piece: SeriesPiece) -> Iterator[pa.RecordBatch]:
        if self._kept is not None and piece.name:
            yield from self._named(piece, self._kept)
            return
        for _, chosen in self._chosen([piece]):
            states = chosen.numbers(piece.states)
            yield rows_of(chosen.of(piece.rows), self.task, self.dimensions, self.metrics, states)

    def _named(self, piece: SeriesPiece, kept: StateColumns) -> Iterator[pa.RecordBatch]:
        """The rows of a piece with a name: slices of what is kept."""
        passing = kept.passing(piece.name, piece.rows, self._only)
        begins = passing.begins
        inside = self._only.within(begins)
        starts = begins.starts[inside]
        if not len(starts):
            return
        self._seen.append(PeriodsRead(starts, piece.states[: len(starts)], piece.commit, piece.run_id))
        begin, end = int(begins.rows[inside.start]), int(begins.rows[inside.stop])
        columns = [passing.values(name) for name in self.metrics]
        whole = given(passing.stored, self.task, self.dimensions, columns, self.schema)
        slices = [column.slice(begin, end - begin) for column in whole]
        states = alike(int(piece.states[0]), end - begin)
        rows = pa.RecordBatch.from_arrays([*slices, states], schema=self.schema)
        some = with_some(columns)
        yield rows if some is None else rows.filter(bits(some[begin:end]))

    def _merged(self, sides: Sides) -> Iterator[pa.RecordBatch]:
        """The series merged to fewer dimensions, coarser periods, or the series of a top list."""
        query, task = self._query, self.task
        names = [each.name for each in task.spec.dimensions]
        keep = [names.index(name) for name in self.dimensions]
        parts: Iterator[ShapePart] = (
            ShapePart(chosen.of(piece.rows), chosen.numbers(piece.states))
            for some in self._pieces(sides)
            for piece, chosen in self._chosen(some)
        )
        if len(keep) < len(names) or query.period is not None:
            parts = rolled(parts, task, keep, coarser(query, task))
        for part in parts if query.top is None else topped(parts, task, keep, query.top):
            states = states_without(self._recounted, part, query, task)
            yield rows_of(part.rows, task, self.dimensions, self.metrics, states)

    def _pieces(self, sides: Sides) -> Iterator[list[SeriesPiece]]:
        """The pieces of the query's time, a few at a time."""
        pieces = Pieces(self._layers, self.task, sides, self._since, self._until, recounted=self._recounted)
        return portions(pieces, lambda piece: 1, TURN_PIECES)

    def _chosen(self, pieces: Iterable[SeriesPiece]) -> Iterator[tuple[SeriesPiece, ChosenRows]]:
        """The pieces that have rows which pass, and which rows these are."""
        for piece in pieces:
            chosen = self._only.choose(piece.rows, self._mask(piece))
            if chosen.begin < chosen.end:
                self._note(piece, chosen)
                yield piece, chosen

    def _mask(self, piece: SeriesPiece) -> Bools | None:
        """Which rows pass the conditions; None: all."""
        if self._kept is None or not piece.name:
            return self._only.mask(piece.rows)
        mask = self._kept.passing(piece.name, piece.rows, self._only).mask
        return None if mask is None else mask.to_numpy(zero_copy_only=False)

    def _note(self, piece: SeriesPiece, chosen: ChosenRows) -> None:
        starts = chosen.numbers(one(piece.rows.column(START)).to_numpy())
        rows, starts = begins_of(starts)
        self._seen.append(
            PeriodsRead(starts, chosen.numbers(piece.states)[rows[:-1]], piece.commit, piece.run_id)
        )


def _joined(arrays: Iterable[Ints]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *arrays])


def _as_table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])


def _sortable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
