"""Results in columns, as a chart draws them: one list of times, and a list of values for each series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.groups import Coded, group
from sluice.metrics import metric
from sluice.results.query import Query, is_list
from sluice.results.reader import ResultsAnswer
from sluice.results.rows import RECOUNTING, STATE, STATES
from sluice.runtime.arrays import Floats, Ints
from sluice.state.series import one

#: Values of a chart: series times periods times metrics.
MOST_VALUES = 2_000_000


class TooManyValues(ValueError):
    """A chart would have more values than a browser can draw."""

    def __init__(self, values: int) -> None:
        super().__init__(
            f"the chart would have {values:,} values, and at most {MOST_VALUES:,} are drawn: "
            "show less time, a coarser period, fewer series or fewer metrics"
        )


@dataclass(frozen=True)
class ChartSeries:
    """The values of one series, for each metric one for each time; NaN where it has none.

    `names`: its values of the dimensions, None in the series of all others. `errors`: of sketched metrics.
    """

    names: tuple[str | None, ...]
    values: dict[str, Floats]
    errors: dict[str, Floats]


@dataclass(frozen=True)
class Chart:
    """All series of an answer. The largest comes first, and the one of all others last.

    `times`: the starts of periods (ms), in order. Where periods without results lie between two of them,
    there is one more time, at which no series has a value. `states`: the codes of `rows.STATES`; -1 there.
    A period that is being counted again has a time, and no values.
    """

    times: Ints
    states: Ints
    series: tuple[ChartSeries, ...]


def drawable(metrics: Sequence[str]) -> list[str]:
    """The metrics that are numbers."""
    return [name for name in metrics if not is_list(name)]


def chart(answer: ResultsAnswer, query: Query, period_ms: int) -> Chart:
    """The answer in columns. `period_ms`: the length of its periods.

    Raises TooManyValues, and what the answer raises.
    """
    rows = answer.table().unify_dictionaries().combine_chunks()
    starts = rows.column("period").cast(pa.int64()).to_numpy()
    times, at = np.unique(starts, return_inverse=True)
    again = np.array([] if query.period else answer.recounted, np.int64)
    groups = group([_code(one(rows.column(name))) for name in answer.dimensions], rows.num_rows)
    values = groups.size * len(times) * len(answer.metrics)
    if values > MOST_VALUES:
        raise TooManyValues(values)
    times, places, states = _with_gaps(times, at, _states(rows, at, len(times)), period_ms)
    times, places, states = _with_recounted(times, places, states, again)

    def matrix(name: str) -> Floats:
        made = np.full((groups.size, len(times)), np.nan)
        made[groups.numbers, places] = pc.cast(one(rows.column(name)), pa.float64()).to_numpy(
            zero_copy_only=False
        )
        return made

    found = {name: matrix(name) for name in answer.metrics}
    errors = {name: matrix(f"{name}_error") for name in answer.metrics if metric(name).sketched}
    names = _names(answer, rows, groups.numbers, groups.size)
    series = tuple(
        ChartSeries(
            names[own],
            {name: own_values[own] for name, own_values in found.items()},
            {name: own_errors[own] for name, own_errors in errors.items()},
        )
        for own in _in_order(names, found, query)
    )
    return Chart(times, states, series)


def _code(column: pa.DictionaryArray) -> Coded:
    """A dimension's values as codes; null, of all other series, has the last one."""
    size = len(column.dictionary)
    codes = pc.fill_null(column.indices, size).to_numpy(zero_copy_only=False)
    return Coded(codes.astype(np.int64), size + 1)


def _states(rows: pa.Table, at: Ints, size: int) -> Ints:
    """The state of each time: the greatest code of its rows."""
    codes = pc.index_in(one(rows.column(STATE)).cast(pa.string()), pa.array(STATES)).to_numpy()
    states = np.zeros(size, np.int64)
    np.maximum.at(states, at, codes)
    return states


def _with_gaps(times: Ints, at: Ints, states: Ints, period_ms: int) -> tuple[Ints, Ints, Ints]:
    """The times with one more in each gap; where each row is in them; and their states."""
    # A day on which a zone's clock changes is up to a few hours longer.
    before = np.flatnonzero(np.diff(times) > period_ms * 1.5)
    shift = np.zeros(len(times), np.int64)
    shift[before + 1] = 1
    wider = np.insert(times, before + 1, times[before] + period_ms)
    return wider, at + np.cumsum(shift)[at], np.insert(states, before + 1, -1)


def _with_recounted(times: Ints, at: Ints, states: Ints, again: Ints) -> tuple[Ints, Ints, Ints]:
    """The times with those of periods that are being counted again; where each row is; and their states."""
    if not len(again):
        return times, at, states
    whole = np.union1d(times, again)
    wider = np.full(len(whole), RECOUNTING)
    own = np.searchsorted(whole, times)
    wider[own] = np.where(np.isin(times, again), RECOUNTING, states)
    return whole, own[at], wider


def _names(answer: ResultsAnswer, rows: pa.Table, own: Ints, size: int) -> list[tuple[str | None, ...]]:
    first = np.zeros(size, np.int64)
    first[own[::-1]] = np.arange(len(own))[::-1]
    columns = [one(rows.column(name)).take(pa.array(first)).to_pylist() for name in answer.dimensions]
    return list(zip(*columns, strict=True)) if columns else [()] * size


def _in_order(names: list[tuple[str | None, ...]], found: dict[str, Floats], query: Query) -> list[int]:
    """The series' numbers: largest first, equal ones by name, that of all others last."""
    by = query.top.metric if query.top is not None else next(iter(found), None)
    sizes = np.zeros(len(names)) if by not in found else np.nansum(np.abs(found[by]), axis=1)
    return sorted(
        range(len(names)),
        key=lambda own: (None in names[own], -sizes[own], tuple(map(str, names[own]))),
    )
