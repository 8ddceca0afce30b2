"""Roll-ups and top lists of SERIES: both merge accumulators, so they are as right as what was counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.groups import code, group
from sluice.metrics import metric
from sluice.results.query import ALL, Query, Top
from sluice.runtime.arrays import Bools, Ints
from sluice.state.series import START, dimension, merged, one, together
from sluice.tasks.period import Period, parse_period
from sluice.tasks.spec import ActiveTask

#: Series that a top list or a sort keeps in memory.
MOST_ROWS = 5_000_000


class TooManyRows(ValueError):
    """A query would keep more rows in memory than is allowed."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what} reads more than {MOST_ROWS:,} rows: ask for less time, filter, or roll up first"
        )


class ShapePart(NamedTuple):
    """SERIES in order, and the codes of their periods' states."""

    rows: pa.Table
    states: Ints


Starts = Callable[[Ints], Ints]


def coarser(query: Query, task: ActiveTask) -> Starts | None:
    """Which period of the roll-up each start is in; None: the task's own periods."""
    if query.period is None:
        return None
    if query.period != ALL:
        return Period(parse_period(query.period), task.spec.timezone).starts
    first = query.since

    def whole(starts: Ints) -> Ints:
        nonlocal first
        first = int(starts.min()) if first is None else first
        return np.full(len(starts), first, np.int64)

    return whole


def rolled(
    parts: Iterable[ShapePart], task: ActiveTask, keep: Sequence[int], starts: Starts | None
) -> Iterator[ShapePart]:
    """The parts with the kept dimensions and coarser periods; a period waits until it is complete."""
    waiting: ShapePart | None = None
    for part in parts:
        if not part.rows.num_rows:
            continue
        found = _roll([part], task, keep, starts)
        if waiting is not None:
            found = _roll([waiting, found], task, keep, None)
        begins = found.rows.column(START).to_numpy()
        end = int(np.searchsorted(begins, begins[-1]))
        if end:
            yield ShapePart(found.rows.slice(0, end), found.states[:end])
        waiting = ShapePart(found.rows.slice(end), found.states[end:])
    if waiting is not None:
        yield waiting


def _roll(
    parts: Sequence[ShapePart], task: ActiveTask, keep: Sequence[int], starts: Starts | None
) -> ShapePart:
    rows = together([part.rows for part in parts])
    codes = np.concatenate([part.states for part in parts])
    times, own = np.unique(rows.column(START).to_numpy(), return_inverse=True)
    begins = (times if starts is None else starts(times))[own]
    return _with_states(merged(rows, task, keep, begins), begins, codes)


def _with_states(rows: pa.Table, begins: Ints, codes: Ints) -> ShapePart:
    """A merged table with the greatest code of what went into each of its periods."""
    times, own = np.unique(begins, return_inverse=True)
    greatest = np.zeros(len(times), np.int64)
    np.maximum.at(greatest, own, codes)
    return ShapePart(rows, greatest[np.searchsorted(times, rows.column(START).to_numpy())])


def topped(
    parts: Iterable[ShapePart], task: ActiveTask, keep: Sequence[int], top: Top
) -> Iterator[ShapePart]:
    """The top series, and all others of each period as one, whose dimensions are null.

    Raises TooManyRows.
    """
    kept = held(parts, "a top list")
    if not kept:
        return
    rows = together([part.rows for part in kept])
    codes = np.concatenate([part.states for part in kept])
    rest = _rest(rows, keep, top)
    begins = rows.column(START).to_numpy()
    yield _with_states(merged(rows, task, keep, begins, rest), begins, codes)


def _rest(rows: pa.Table, keep: Sequence[int], top: Top) -> Bools:
    """Which rows are of series that are not among the top ones over the whole time."""
    coded = [code(one(rows.column(dimension(number)))) for number in keep]
    groups = group([each for each, _ in coded], rows.num_rows)
    merged_columns: dict[str, pa.Array] = {}
    made = metric(top.metric)
    for each in made.accumulators:
        given = {name: one(rows.column(name)) for name in each.columns}
        merged_columns |= each.merge(given, groups.numbers, groups.size)
    values = np.nan_to_num(made.results(merged_columns).values, nan=-np.inf)
    # Equal values are in the order of the series' names, so the same query has the same answer.
    names = {
        dimension(number): distinct.take(pa.array(own))
        for number, own, (_, distinct) in zip(keep, groups.codes, coded, strict=True)
    }
    order = pc.sort_indices(
        pa.table({"value": pa.array(values), **names}),
        sort_keys=[("value", "descending"), *((name, "ascending") for name in names)],
    )
    rest = np.ones(groups.size, bool)
    rest[order.to_numpy()[: top.n]] = False
    found: Bools = rest[groups.numbers]
    return found


def held(parts: Iterable[ShapePart], what: str) -> list[ShapePart]:
    """The parts that have rows, in memory. Raises TooManyRows."""
    kept, number = list[ShapePart](), 0
    for part in parts:
        number += part.rows.num_rows
        if number > MOST_ROWS:
            raise TooManyRows(what)
        if part.rows.num_rows:
            kept.append(part)
    return kept
