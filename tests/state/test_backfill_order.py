"""Two processes write results, and the final results are right in any order of their steps.

The steps are those of the speed layer's batch (online.py) and of a backfill's day (backfill.py). Each step is
as indivisible as a statement of PostgreSQL or a cell of HBase. The functions that merge are the real ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.engine.merge import merge
from sluice.engine.schema import partials_schema
from sluice.speed.writer import COMMITS_APART
from sluice.state.backfilled import Backfilled, keys_of, onto
from tests.examples import examples
from tests.state.test_backfilled import DAY, Book, Cells, counted, fill, lines

pytestmark = pytest.mark.slow

APART = round(COMMITS_APART.total_seconds() * 1000)
OLD = [lines([1, 2, 2], DAY), lines([2, 3], DAY + timedelta(days=1))]  # before the task's first commit
NEW = [lines([1, 3]), lines([2, 4]), lines([3])]  # batches of the speed layer after it


class Platform:
    """State, pointers and results, as both processes see them."""

    def __init__(self) -> None:
        self.book, self.cells = Book(), Cells()
        self.state = partials_schema().empty_table()
        self.head = 0  # the newest commit's time
        self.results: dict[str, tuple[int, Any]] = {}

    def put(self, table: pa.Table, stamp: int) -> None:
        """Keep the later of two cells like HBase, or the one written last at equal times."""
        for row in table.to_pylist():
            if stamp >= self.results.get(row["key"], (0, None))[0]:
                self.results[row["key"]] = stamp, {k: v for k, v in row.items() if k != "task_id"}


def speed(platform: Platform) -> Iterator[None]:
    """The micro-batches: commit, then read the pointers, then write."""
    backfilled = Backfilled(platform.book, platform.cells, "logs")  # type: ignore[arg-type]
    for text in NEW:
        batch = counted(text)
        platform.state = merge(pa.concat_tables([platform.state, batch]))
        platform.head += APART
        stamp, touched = platform.head, onto(keys_of(batch), platform.state)
        yield
        whole, _ = backfilled.added(touched)
        yield
        platform.put(whole, stamp)
        yield


def backfill(platform: Platform, day: date, text: list[bytes], number: int) -> Iterator[None]:
    """The steps of one day's backfill, which writes the blocks number `number`."""
    own = counted(text)
    fill(platform.book, platform.cells, day, own, number)  # blocks are written, then pointers replaced
    yield
    stamp = platform.head + 1
    yield
    touched = onto(keys_of(own), platform.state)
    yield
    # A backfill that starts over, or another process of the same version, has nothing in memory.
    whole, _ = Backfilled(platform.book, platform.cells, "logs").added(touched)  # type: ignore[arg-type]
    yield
    platform.put(whole, stamp)
    yield


def backfills(platform: Platform, deaths: list[int]) -> Iterator[None]:
    """Both days one after the other, as the lock orders them; each first dies after some steps."""
    for number, (text, steps) in enumerate(zip(OLD, deaths, strict=True), 1):
        day = DAY + timedelta(days=number - 1)
        for _, _ in zip(range(steps), backfill(platform, day, text, number), strict=False):
            yield
        yield from backfill(platform, day, text, number + 10)


@examples(60)
@given(
    turns=st.lists(st.booleans(), max_size=60),
    deaths=st.lists(st.integers(0, 5), min_size=2, max_size=2),
)
def test_each_line_is_in_the_result_once_in_any_order(turns: list[bool], deaths: list[int]) -> None:
    platform = Platform()
    actors = [speed(platform), backfills(platform, deaths)]
    for turn in turns:
        next(actors[turn], None)
    for actor in actors:  # finish those that are not through yet
        for _ in actor:
            pass
    whole = counted([line for text in (*OLD, *NEW) for line in text])
    expected = {row["key"]: {k: v for k, v in row.items() if k != "task_id"} for row in whole.to_pylist()}
    assert {key: row for key, (_, row) in platform.results.items()} == expected
