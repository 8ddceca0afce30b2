"""One read path for results: `read` answers a `Query` from both layers, as Arrow tables, in bounded memory.

Published periods come from final blocks and all others from the committed state, each period from exactly
one of them (`results.layers`). Without an order of its own or a top list, an answer is streamed: memory holds
a few blocks. Those two keep what they sort in memory, at most `shape.MOST_ROWS` series.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.results.filters import select
from sluice.results.layers import Layers
from sluice.results.pieces import Piece, Pieces
from sluice.results.query import Query
from sluice.results.rows import OPEN, STATES, rows_of, schema_of
from sluice.results.shape import MOST_ROWS, Part, TooManyRows, coarser, rolled, topped
from sluice.runtime.arrays import Ints
from sluice.state.series import START
from sluice.tasks.spec import ActiveTask

#: All of time, in ms.
ALWAYS = range(-(1 << 50), 1 << 50)
BATCH_ROWS = 65_536

#: What an answer says of each period of the task: `commit` if it is open, `run_id` if it was published.
PERIODS = pa.schema(
    [
        ("period_start", pa.int64()),  # ms since the epoch
        ("state", pa.string()),
        ("commit", pa.int64()),
        ("run_id", pa.string()),
    ]
)


def read(layers: Layers, query: Query) -> list[Answer]:
    """Answer the query, one answer for each of its tasks in their order.

    Raises UnknownTask, UnknownVersion and BadQuery at once; TooManyRows and what the stores raise while an
    answer is read.
    """
    tasks = [layers.task(name, query.version) for name in query.tasks]
    for task in tasks:
        query.check(task)
    return [Answer(layers, task, query) for task in tasks]


class Answer:
    """The results of one task; it can be read once."""

    def __init__(self, layers: Layers, task: ActiveTask, query: Query) -> None:
        self.task = task
        self.dimensions = query.kept_dimensions(task)
        self.metrics = query.shown_metrics(task)
        self.schema = schema_of(task, self.dimensions, self.metrics)
        self._layers, self._query = layers, query
        self._seen: list[pa.Table] = []

    @property
    def periods(self) -> pa.Table:
        """`PERIODS`: where each period that was read so far and passed the filters came from; in order."""
        found = pa.concat_tables([PERIODS.empty_table(), *self._seen])
        rows = found.group_by("period_start", use_threads=False).aggregate(
            [(name, "first") for name in PERIODS.names[1:]]
        )
        return rows.rename_columns(PERIODS.names).cast(PERIODS).sort_by("period_start")

    def table(self) -> pa.Table:
        """All rows at once."""
        return pa.Table.from_batches(self.batches(), self.schema)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows in batches. Raises TooManyRows."""
        skip, left = self._query.offset, self._query.limit
        for table in self._tables():
            rows = table.slice(skip)
            skip = max(0, skip - table.num_rows)
            rows = rows if left is None else rows.slice(0, left)
            yield from rows.to_batches(BATCH_ROWS) if rows.num_rows else ()
            left = None if left is None else left - rows.num_rows
            if left == 0:
                return

    def _tables(self) -> Iterator[pa.Table]:
        tables = (
            rows_of(part.rows, self.task, self.dimensions, self.metrics, part.states)
            for part in self._parts()
        )
        if not self._query.order:
            yield from tables
            return
        yield self._sorted(tables)

    def _sorted(self, tables: Iterator[pa.Table]) -> pa.Table:
        """All rows in the wanted order; with a limit, only those that can be shown are kept."""
        page = None if self._query.limit is None else self._query.offset + self._query.limit
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

    def _parts(self) -> Iterator[Part]:
        query, task = self._query, self.task
        names = [each.name for each in task.spec.dimensions]
        keep = [names.index(name) for name in self.dimensions]
        parts: Iterator[Part] = self._selected()
        if len(keep) < len(names) or query.period is not None:
            parts = rolled(parts, task, keep, coarser(query, task))
        return parts if query.top is None else topped(parts, task, keep, query.top)

    def _selected(self) -> Iterator[Part]:
        query = self._query
        since = ALWAYS.start if query.since is None else query.since
        until = ALWAYS.stop if query.until is None else query.until
        for piece in Pieces(self._layers, self.task, since, until):
            numbered = piece.rows.append_column("state", pa.array(piece.states.astype(np.int64)))
            found = select(numbered, self.task, since, until, query.where)
            states: Ints = found.column("state").to_numpy()
            part = Part(found.drop_columns(["state"]), states)
            self._note(piece, part)
            yield part

    def _note(self, piece: Piece, part: Part) -> None:
        starts, first = np.unique(part.rows.column(START).to_numpy(), return_index=True)
        codes = part.states[first]
        is_open = codes == OPEN
        columns = [
            pa.array(starts, pa.int64()),
            pa.array(STATES).take(pa.array(codes)),
            pa.array(np.full(len(starts), piece.commit), mask=~is_open),
            pc.if_else(pa.array(is_open), pa.scalar(None, pa.string()), piece.run_id),
        ]
        self._seen.append(pa.table(columns, schema=PERIODS))


def _sortable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
