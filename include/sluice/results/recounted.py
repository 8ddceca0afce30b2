"""Periods that are being counted again: what an answer says of them, and of roll-ups that lack them."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa

from sluice.results.query import ALL, Query
from sluice.results.rows import RECOUNTING, STATES
from sluice.results.shape import ShapePart, coarser
from sluice.runtime.arrays import Ints
from sluice.state.series import START
from sluice.tasks.spec import ActiveTask


def with_recounted(periods: pa.Table, starts: Collection[int]) -> pa.Table:
    """Rows of `reader.PERIODS` with those of the periods that are being counted again, in order."""
    if not starts:
        return periods
    rows = [{"period_start": start, "state": STATES[RECOUNTING]} for start in starts]
    whole = pa.concat_tables([periods, pa.Table.from_pylist(rows, schema=periods.schema)])
    return whole.sort_by("period_start")


def states_without(recounted: Collection[int], part: ShapePart, query: Query, task: ActiveTask) -> Ints:
    """The states of a roll-up's rows: one with a period that is being counted again lacks its lines."""
    if query.period is None or not recounted:
        return part.states
    if query.period == ALL:
        return np.full(len(part.states), RECOUNTING)
    starts = coarser(query, task)
    assert starts is not None  # noqa: S101 - there is a period
    lacking = starts(np.array(sorted(recounted), np.int64))
    return np.where(np.isin(part.rows.column(START).to_numpy(), lacking), RECOUNTING, part.states)
