from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sluice.engine.count import count
from sluice.engine.merge import merge, merge_numbered
from sluice.engine.schema import KEYS, partials_schema
from tests.engine.samples import ALL_METRICS, BYTES, line, plan, records, spec
from tests.examples import examples

#: Halves and quarters: sums of these are exact in a float, so that merges can be compared bit by bit.
sizes = st.lists(
    st.one_of(
        st.integers(-(2**45), 2**45).map(str),
        st.integers(-100, 100).map(lambda n: str(n / 4)),
        st.just("-"),
    ),
    max_size=12,
)
TASKS = plan(
    spec(metrics=ALL_METRICS, measure=BYTES),
    spec(name="hits", period="1d"),
    spec(name="greatest", metrics=["max"], measure=BYTES),
)


def partials(found: list[str]) -> pa.Table:
    lines = [line(size=size, status=str(200 + n % 3)) for n, size in enumerate(found)]
    return count(records(lines), TASKS).partials


def rows(table: pa.Table) -> list[dict[str, object]]:
    return sorted(table.to_pylist(), key=lambda r: tuple(str(r[k]) for k in KEYS))


def together(*tables: pa.Table) -> pa.Table:
    return merge(pa.concat_tables(tables))


@examples(20)
@given(sizes, sizes, sizes)
def test_the_laws_of_merging(one: list[str], two: list[str], three: list[str]) -> None:
    a, b, c = partials(one), partials(two), partials(three)
    whole = rows(together(a, b, c))
    assert rows(together(c, a, b)) == whole  # commutative
    assert rows(together(together(a, b), c)) == rows(together(a, together(b, c))) == whole  # associative
    assert rows(together(a, b, c, partials_schema().empty_table())) == whole  # nothing is neutral
    assert rows(merge(together(a, b, c))) == whole  # merging again changes nothing


def test_there_is_one_row_per_series_and_the_number_of_each() -> None:
    table = pa.concat_tables([partials(["1", "2"]), partials(["3", "4", "5"])])
    merged, numbers = merge_numbered(table)
    for number, row in zip(numbers.tolist(), table.to_pylist(), strict=True):
        into = merged.slice(number, 1).to_pylist()[0]
        assert all(into[k] == row[k] for k in KEYS)
    assert len({tuple(r[k] for k in KEYS) for r in merged.to_pylist()}) == merged.num_rows


def test_what_a_task_does_not_need_stays_null() -> None:
    merged = together(partials(["1"]), partials(["-"]))
    by_task = {row["task_id"]: row for row in merged.to_pylist()}
    assert by_task[2]["lines"] == 2
    assert [by_task[2][name] for name in ("measured", "isum", "fractions", "min", "max")] == [None] * 5
    assert [by_task[3][name] for name in ("measured", "isum", "min", "max")] == [None, None, None, 1.0]


def test_nothing() -> None:
    assert merge(partials_schema().empty_table()).equals(partials_schema().empty_table())
