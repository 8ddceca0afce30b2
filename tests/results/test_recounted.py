"""What is said of periods that are being counted again; test_reader.py has whole answers."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa

from sluice.results.query import Query
from sluice.results.reader import PERIODS
from sluice.results.recounted import states_without, with_recounted
from sluice.results.rows import FINAL, OPEN, RECOUNTING
from sluice.results.shape import ShapePart
from tests.engine.samples import active, spec

HOUR = 3_600_000
(TASK,) = active(spec(period="1h"))
PART = ShapePart(pa.table({"period_start": [0, 24 * HOUR]}), np.array([FINAL, OPEN]))


def states(period: str | None, *recounted: int) -> list[int]:
    query = Query(tasks=(TASK.spec.name,), period=period)
    return states_without(set(recounted), PART, query, TASK).tolist()


def test_a_row_of_a_roll_up_that_lacks_a_period_is_marked() -> None:
    assert states("1d", 3 * HOUR) == [RECOUNTING, OPEN]
    assert states("1d", 48 * HOUR) == [FINAL, OPEN]
    assert states("all", 3 * HOUR) == [RECOUNTING, RECOUNTING]


def test_without_a_roll_up_and_without_such_periods_nothing_is_marked() -> None:
    assert states(None, 0) == [FINAL, OPEN]
    assert states("1d") == [FINAL, OPEN]


def test_a_period_is_said_without_a_commit_and_without_a_run() -> None:
    start = round(datetime(2015, 5, 17, tzinfo=UTC).timestamp() * 1000)
    rows = [{"period_start": start + HOUR, "state": "open", "commit": 7}]
    periods = pa.Table.from_pylist(rows, schema=PERIODS)
    assert with_recounted(periods, []) is periods
    row, _ = with_recounted(periods, [start]).to_pylist()
    assert row == {"period_start": start, "state": "recounting", "commit": None, "run_id": None}
