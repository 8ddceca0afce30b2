from __future__ import annotations

from collections import Counter, defaultdict

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sluice.engine.schema import partials_schema
from sluice.state.dealing import Dealing
from tests.examples import examples

named = st.lists(st.tuples(st.integers(1, 3), st.integers(-2, 3), st.integers(0, 30)), max_size=60)


def partials(names: list[tuple[int, int, int]]) -> pa.Table:
    rows = [
        {"task_id": task, "version": 1, "period_start": start * 60_000, "key": f"k{key}"}
        for task, start, key in names
    ]
    return pa.Table.from_pylist(rows, schema=partials_schema())


@examples(60)
@given(
    names=named,
    tasks=st.integers(1, 7),
    layout=st.sampled_from([2, 8, 16]),
    chosen=st.dictionaries(st.tuples(st.integers(1, 3), st.integers(-2, 3)), st.integers(0, 6)),
)
def test_each_row_goes_to_one_task_and_no_block_to_two(
    names: list[tuple[int, int, int]], tasks: int, layout: int, chosen: dict[tuple[int, int], int]
) -> None:
    wide = (1, 1, 0)
    homes = {(task, 1, start * 60_000): home % tasks for (task, start), home in chosen.items()}
    dealing = Dealing(tasks, {wide: layout}, homes)
    table = partials(names)
    found = list(dealing(table)) if names else []
    rows = [str(row) for _, own in found for row in own.to_pylist()]
    assert Counter(rows) == Counter(map(str, table.to_pylist()))
    assert all(0 <= target < tasks for target, _ in found)
    assert len({target for target, _ in found}) == len(found)
    holders = defaultdict(set)
    for target, own in found:
        for row in own.to_pylist():
            period = row["task_id"], row["version"], row["period_start"]
            holders[period, row["key"] if period == wide else None].add(target)
    assert all(len(targets) == 1 for targets in holders.values())
    assert all(holders[period, None] <= {home} for period, home in homes.items() if period != wide)


def test_the_buckets_of_a_wide_period_are_spread_and_tasks_take_turns() -> None:
    one = partials([(1, 0, key) for key in range(400)])
    shares = {target: own.num_rows for target, own in Dealing(4, {(1, 1, 0): 8})(one)}
    assert len(shares) == 4
    assert min(shares.values()) > 50
    assert [own.num_rows for _, own in Dealing(4)(one)] == [400]
    several = partials([(task, 0, 0) for task in (1, 2, 3)])
    assert len(list(Dealing(3)(several))) == 3
    minutes = partials([(1, start, 0) for start in range(64)])
    assert len(list(Dealing(4)(minutes))) == 4
