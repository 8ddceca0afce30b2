"""A statement's shares: together they read every series once, from the sides that were decided."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.results.periods import ALWAYS
from sluice.results.reader import read
from sluice.sql.shares import shares
from tests.examples import examples
from tests.results.questions import DAYS, FIRST, LINES, Given, ask, query, stored, task
from tests.results.stored import DAY, Stored

HOUR = 3_600_000
BOUNDS = st.tuples(st.integers(0, 72), st.integers(0, 72)).map(sorted)


def in_shares(layers: Stored, since: int, until: int, most: int) -> tuple[int, list[dict[str, Any]]]:
    """How many shares there are, and their rows."""
    sides = layers.sides(layers.of, since, until)
    own = pickle.loads(pickle.dumps(shares(layers.of, sides, since, until, most)))  # noqa: S301
    rows: list[dict[str, Any]] = []
    for share in own:
        given = query(since=share.since, until=share.until)
        rows += read(share.of(layers), given)[0].table().to_pylist()
    return len(own), rows


@pytest.mark.slow
@given(given=LINES, final=DAYS, late=st.booleans(), bounds=BOUNDS, most=st.sampled_from([1, 150, 1 << 20]))
@examples(120)
def test_shares_read_what_one_reader_reads(
    given: Sequence[Given], final: frozenset[int], late: bool, bounds: list[int], most: int
) -> None:
    layers = stored(task(), given, final)
    if late and layers.rows.num_rows:
        last = max(layers.rows.column("period_start").to_pylist())
        if last // DAY in final:
            layers.superseded, layers.late = frozenset([last // DAY]), frozenset([last])
    since, until = (FIRST + bound * HOUR for bound in bounds)
    number, rows = in_shares(layers, since, until, most)
    assert rows == ask(layers, since=since, until=until)
    if most == 1 << 20:
        assert number <= 1


def test_each_day_is_a_share_of_its_own_if_it_is_large() -> None:
    given = [(hour, 0, 0, 1) for hour in range(72)]
    days = frozenset(FIRST // DAY + n for n in range(3))
    number, rows = in_shares(stored(task(), given, days), ALWAYS.start, ALWAYS.stop, 1)
    assert number == 3
    assert len(rows) == 72


def test_without_periods_there_is_nothing_to_read() -> None:
    assert in_shares(stored(task(), []), ALWAYS.start, ALWAYS.stop, 1) == (0, [])


def test_a_share_keeps_its_sides_when_a_day_is_published() -> None:
    layers = stored(task(), [(1, 0, 0, 1), (25, 0, 0, 1)])
    (share,) = shares(
        layers.of, layers.sides(layers.of, ALWAYS.start, ALWAYS.stop), ALWAYS.start, ALWAYS.stop
    )
    layers.final_days = frozenset([FIRST // DAY])
    rows = read(share.of(layers), query())[0].table().to_pylist()
    assert [row["state"] for row in rows] == ["open", "open"]
    assert [row["state"] for row in ask(layers)] == ["final", "open"]
