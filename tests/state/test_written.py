"""Results that are as they were written last are not made, and whatever may have changed is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.engine.count import count
from sluice.engine.merge import merge
from sluice.engine.results import results
from sluice.engine.schema import partials_schema
from sluice.metrics.base import Results
from sluice.state import written as module
from sluice.state.written import ChangedResults, Written
from tests.engine.samples import ALL_METRICS, BYTES, active, line, plan, records, spec
from tests.examples import examples

CLIENTS = spec(
    dimensions=[{"name": "client", "extract": {"delimiter": " ", "index": 0}}],
    metrics=[*ALL_METRICS, "unique", "p50", "top3"],
    measure=BYTES,
)
TASK = active(CLIENTS)[0]
TASKS = {(TASK.task_id, TASK.version): TASK}


@pytest.fixture(autouse=True, scope="module")
def seed() -> Iterator[None]:
    """Hashes of which no two of these tests' results share a slot."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.secrets, "randbits", lambda _: 1)
        yield


def counted(lines: Sequence[tuple[int, int]], first: int = 0) -> pa.Table:
    """The partial aggregates of lines: (client, size)."""
    text = [line(client=f"c{client}", size=str(size)) for client, size in lines]
    return merge(count(records(text, first=first), plan(CLIENTS)).partials)


def texts(table: pa.Table) -> dict[bytes, tuple[str, float | None]]:
    rows, *values = (table.column(name).to_pylist() for name in ("row", "text", "error"))
    return dict(zip(rows, zip(*values, strict=True), strict=True))


def cache(newest: int = 0, revision: int = 0) -> Written:
    """A cache that takes what is stamped with later commits than `newest`."""
    made = Written()
    made.renew(revision, lambda: newest)
    return made


def project(last: Written, table: pa.Table, commit: int = 1) -> dict[bytes, tuple[str, float | None]]:
    """Write what differs; returns it."""
    look = last.look(commit)
    made = texts(results(table, TASKS, look))
    look.keep()
    return made


@given(
    batches=st.lists(
        st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=9),
        min_size=1,
        max_size=6,
    )
)
@examples(30)
def test_what_is_written_is_exactly_what_differs_from_what_was_written_before(
    batches: Sequence[Sequence[tuple[int, int]]],
) -> None:
    last, stored, state = cache(), dict[bytes, tuple[str, float | None]](), partials_schema().empty_table()
    for number, lines in enumerate(batches):
        state = merge(pa.concat_tables([state, counted(lines, first=10 * number)]))
        whole = texts(results(state, TASKS))
        differs = {row: value for row, value in whole.items() if stored.get(row) != value}
        assert project(last, state, 1 + number) == differs
        stored |= differs
        assert stored == whole


def values(*found: float, errors: Sequence[float] | None = None, **others: object) -> Results:
    made = Results(np.array(found), errors=None if errors is None else np.array(errors))
    for name, value in others.items():
        object.__setattr__(made, name, value)
    return made


def differs(look: ChangedResults, found: Results) -> list[bool]:
    """Which of a metric's results differ; those of series 0, 1, ... of one period."""
    size = len(found.values)
    series: Mapping[str, pa.Array] = {
        "task_id": pa.array([1] * size, pa.int32()),
        "version": pa.array([1] * size, pa.int32()),
        "period_start": pa.array([0] * size, pa.int64()),
        "key": pa.array([f"series {n}" for n in range(size)]),
    }
    wanted = look(series)
    assert wanted is not None
    answer: list[bool] = wanted("p50", found, np.arange(size)).tolist()
    look.keep()
    return answer


def test_a_changed_error_alone_is_written() -> None:
    last = cache()
    assert differs(last.look(1), values(5.0, 6.0, errors=[0.5, 0.5])) == [True, True]
    assert differs(last.look(2), values(5.0, 6.0, errors=[0.5, 0.25])) == [False, True]
    assert differs(last.look(3), values(5.0, 6.0, errors=[0.5, 0.25])) == [False, False]


def test_a_value_that_comes_back_is_written() -> None:
    last = cache()
    found = [differs(last.look(n), values(value)) for n, value in enumerate((5.0, 6.0, 5.0, 5.0), 1)]
    assert found == [[True], [True], [True], [False]]


def test_values_whose_texts_differ_are_not_the_same() -> None:
    last = cache()
    one = {"integers": np.array([1]), "exact": np.array([True])}
    bits = {"integers": np.array([1.0]).view(np.int64), "exact": np.array([True])}
    seen = [values(0.0), values(-0.0), values(1.0), values(1.0, **one), values(1.0, **bits)]
    assert [differs(last.look(1), each) for each in seen] == [[True]] * 5


def test_integers_beyond_doubles_are_told_apart() -> None:
    last, most = cache(), 2**62
    for integer in (most, most + 1):
        exact = {"integers": np.array([integer]), "exact": np.array([True])}
        assert differs(last.look(1), values(math.ldexp(1, 62), **exact)) == [True]


def test_lists_are_compared_by_their_texts() -> None:
    last = cache()
    for texts, new in ((["[1]", "[2]"], [True, True]), (["[1]", "[3]"], [False, True])):
        found = values(1.0, 1.0, errors=[0.0, 0.0], texts=pa.array(texts))
        assert differs(last.look(1), found) == new


STATE = counted([(1, 5), (2, 5)])
ALL = texts(results(STATE, TASKS))


def test_nothing_is_taken_for_written_before_it_is() -> None:
    last = cache()
    assert texts(results(STATE, TASKS, last.look(1))) == ALL  # and the put fails: no `keep`
    assert project(last, STATE) == ALL
    assert project(last, STATE) == {}


def test_what_is_stamped_with_a_commit_of_before_the_first_look_is_no_entry() -> None:
    last = cache(newest=5)
    for commit, expected in ((4, ALL), (5, ALL), (6, ALL), (7, {})):
        assert project(last, STATE, commit) == expected


def test_a_backfill_drops_the_entries_and_those_that_lie_below_its_cells() -> None:
    last = cache()
    project(last, STATE, 1)
    last.renew(1, lambda: 2)  # it may have written with the time of commit 2, and a millisecond
    assert project(last, STATE, 2) == ALL
    assert project(last, STATE, 3) == ALL
    last.renew(1, pytest.fail)
    assert project(last, STATE, 4) == {}


def test_versions_that_a_backfill_may_be_writing_are_always_written() -> None:
    last = cache()
    project(last, STATE, 1)
    look = last.look(2, {(TASK.task_id, TASK.version)})
    assert texts(results(STATE, TASKS, look)) == ALL
    assert texts(results(STATE, TASKS, last.look(3, {(TASK.task_id, TASK.version + 1)}))) == {}


def test_after_a_failure_its_own_commit_is_written_whole() -> None:
    last = cache()
    project(last, STATE, 1)
    last.forget(2)
    assert project(last, STATE, 2) == ALL
    assert project(last, STATE, 3) == ALL
    assert project(last, STATE, 4) == {}
    last.forget(1)  # a floor never sinks
    assert project(last, STATE, 2) == ALL


def test_everything_is_written_again_after_some_minutes() -> None:
    now = 0.0
    last = Written(lambda: now)
    last.renew(0, lambda: 0)
    project(last, STATE, 1)
    now = module.REWRITE_SECONDS
    last.renew(0, pytest.fail)
    assert project(last, STATE, 2) == {}
    now += 1
    last.renew(0, pytest.fail)
    assert project(last, STATE, 3) == ALL
    assert project(last, STATE, 4) == {}


def test_the_slots_are_bounded_and_grow_with_the_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_SLOTS", 64)
    monkeypatch.setattr(module, "MOST_SLOTS", 1024)
    last, rng = cache(), np.random.default_rng(1)
    wide = values(*rng.random(200))
    for commit in range(1, 5):
        new = differs(last.look(commit), wide)
    assert sum(new) < 60  # only what shares a slot
    assert last.bytes == 8 * 1024
    huge = values(*rng.random(10_000))
    assert sum(differs(last.look(5), huge)) == 10_000
    assert 8_000 < sum(differs(last.look(6), huge)) < 10_000
    assert last.bytes == 8 * 1024


def test_series_metrics_periods_and_versions_have_entries_of_their_own() -> None:
    last = cache()
    alike = counted([(1, 5), (2, 5)])
    project(last, alike)
    later = alike.set_column(2, "period_start", pa.array([60_000, 60_000]).cast(alike.schema.types[2]))
    other = alike.set_column(1, "version", pa.array([2, 2], pa.int32()))
    assert alike.schema.names[1:3] == ["version", "period_start"]
    assert len(project(last, later)) == len(ALL)
    look = last.look(1)
    assert results(other, {(TASK.task_id, 2): TASK}, look).num_rows == len(ALL)


def test_the_metrics_of_the_task_include_lists_and_errors() -> None:
    """Or the first test would not show that they are compared."""
    assert any(text.startswith("[") for text, _ in ALL.values())
    assert any(error is not None for _, error in ALL.values())
