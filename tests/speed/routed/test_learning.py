from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.engine.schema import partials_schema
from sluice.engine.spent import SPENT
from sluice.engine.wire import HOLDERS
from sluice.speed.routed import learning as module
from sluice.speed.routed.batches import TaskBatch
from sluice.speed.routed.hot_keys import RoutedHotKeys
from sluice.speed.routed.learning import learnt
from tests.examples import examples

counts = st.dictionaries(
    st.tuples(st.integers(1, 2), st.integers(0, 2), st.integers(0, 20)), st.integers(1, 99)
)


def partials(found: dict[tuple[int, int, int], int]) -> pa.Table:
    rows = [
        {"task_id": task, "version": 1, "period_start": start, "key": f"k{key}", "lines": lines}
        for (task, start, key), lines in found.items()
    ]
    return pa.Table.from_pylist(rows, schema=partials_schema())


def batch(keys: pa.Table, task: int) -> TaskBatch:
    own = keys.filter(pa.array([each == task for each in keys.column("task_id").to_pylist()], pa.bool_()))
    return TaskBatch(own, SPENT.empty_table(), {}, HOLDERS.empty_table())


@examples(60)
@given(counts)
def test_a_few_keys_are_named_and_the_sums_are_of_all(found: dict[tuple[int, int, int], int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "NAMED", 4)
        keys = learnt(partials(found), whole={(2, 1)})
    for task in {task for task, _, _ in found}:
        own = {name: lines for name, lines in found.items() if name[0] == task}
        by_key: dict[str, int] = {}
        for (_, _, key), lines in own.items():
            by_key[f"k{key}"] = by_key.get(f"k{key}", 0) + lines
        seen = batch(keys, task)
        assert (seen.tuples, seen.groups) == (sum(own.values()), len(own))
        assert seen.state == 8.0  # a count for each series
        named = dict(zip(seen.by_key[0].to_pylist(), seen.counts.tolist(), strict=True))
        assert len(named) == len(by_key) if task == 2 else min(4, len(by_key))
        assert named.items() <= by_key.items()
        others = [lines for key, lines in by_key.items() if key not in named]
        assert seen.unnamed == max(others, default=0) <= min(named.values())


def test_parts_of_a_version_name_together_about_as_many_keys_as_one_task_would() -> None:
    every = {(1, 0, key): 1_000 - key for key in range(1_000)}
    parts = [{name: lines for name, lines in every.items() if name[2] % 4 == part} for part in range(4)]
    keys = pa.concat_tables([learnt(partials(part), shares={(1, 1): 0.25}) for part in parts])
    seen, alone = batch(keys, 1), batch(learnt(partials(every)), 1)
    assert len(seen.counts) == len(alone.counts) == module.NAMED
    assert set(seen.by_key[0].to_pylist()) == set(alone.by_key[0].to_pylist())
    assert (seen.tuples, seen.groups, seen.top) == (alone.tuples, alone.groups, alone.top)
    tiny = learnt(partials(parts[0]), shares={(1, 1): 0.001})
    assert tiny.num_rows == module.LEAST_NAMED + 1  # and the sums of the others


def test_hot_keys_say_by_how_much_a_share_may_be_too_low_for_keys_that_were_not_named() -> None:
    hot = RoutedHotKeys()
    hot.add(pa.array(["a"]), pa.array([60]).to_numpy(), tuples=100, unnamed=10)
    (first,) = hot.top(5)
    assert (first.key, first.share, first.error) == ("a", 0.6, 0.0)
    hot.add(pa.array(["a", "b"]), pa.array([60, 40]).to_numpy())
    assert [each.error > 0 for each in hot.top(5)] == [False, True]
