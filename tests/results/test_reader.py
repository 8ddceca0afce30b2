"""The reader answers as counting the lines directly does, wherever each period is stored (`pieces`)."""

from __future__ import annotations

import math
import re
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from sluice.engine.count import count
from sluice.engine.merge import merge
from sluice.engine.results import results
from sluice.results import shape
from sluice.results.query import BadQuery, Order, Top, Where
from sluice.results.reader import ResultsAnswer, read
from sluice.tasks.spec import ActiveTask
from tests.engine.samples import ALL_METRICS, BYTES, by_hand, plan, records, spec
from tests.examples import examples
from tests.results.questions import (
    DAY_NUMBER,
    DAYS,
    DIMENSIONS,
    FIRST,
    LINES,
    SKETCHED,
    Given,
    a_million,
    ask,
    query,
    stored,
    task,
    texts,
)
from tests.results.stored import COMMIT, DAY


def ms(row: dict[str, Any]) -> int:
    return int(row["period"].timestamp() * 1000)


def direct(
    of: ActiveTask, lines: Sequence[bytes], keep: Sequence[str], period: str
) -> dict[tuple[int, tuple[str, ...]], dict[str, float]]:
    """What a task with only these dimensions and this period counts."""
    kept = [each for each in DIMENSIONS if each["name"] in keep]
    return by_hand(lines, spec(period=period, dimensions=kept, measure=BYTES, metrics=of.spec.metrics))


def shown(rows: Sequence[dict[str, Any]], keep: Sequence[str], metrics: Sequence[str]) -> dict[Any, Any]:
    return {
        (ms(row), tuple(row[name] for name in keep)): {
            name: row[name] for name in metrics if row[name] is not None
        }
        for row in rows
    }


def close(found: dict[Any, Any], wanted: dict[Any, Any]) -> bool:
    return found.keys() == wanted.keys() and all(
        found[key] == pytest.approx({n: v for n, v in own.items() if v is not None and not math.isnan(v)})
        for key, own in wanted.items()
    )


@pytest.mark.slow
@given(given=LINES, final=DAYS, late=st.booleans())
@examples(40)
def test_every_result_is_read_as_the_layers_write_it(
    given: list[Given], final: frozenset[int], late: bool
) -> None:
    """The same numbers, texts and errors as the row of each series, period and metric in HBase."""
    of, layers = task(SKETCHED), stored(task(SKETCHED), given, final)
    if late and layers.rows.num_rows:
        last = max(layers.rows.column("period_start").to_pylist())
        if last // DAY in final:
            layers.superseded, layers.late = frozenset([last // DAY]), frozenset([last])
    found = {}
    for row in ask(layers):
        for name in SKETCHED:
            if row[name] is not None:
                found[ms(row), row["client"], row["path"], name] = row[name], row.get(f"{name}_error")
    wanted = {}
    if given:
        merged = merge(count(records(texts(given)), plan(of.spec)).partials)
        for row in results(merged, {(1, 1): of}).to_pylist():
            client, path = (part.replace("%5F", "_").replace("%25", "%") for part in row["key"].split("_"))
            value = row["text"] if row["metric"] == "top3" else row["value"]
            wanted[row["period_start"], client, path, row["metric"]] = value, row["error"]
    assert found == wanted


@given(given=LINES, final=DAYS, superseded=DAYS, data=st.data())
@examples(40)
def test_each_period_says_which_side_it_is_from(
    given: list[Given], final: frozenset[int], superseded: frozenset[int], data: st.DataObject
) -> None:
    layers = stored(task(), given, final)
    layers.superseded = superseded & final
    starts = sorted(set(layers.rows.column("period_start").to_pylist()))
    inside = [start for start in starts if start // DAY in layers.superseded]
    layers.late = frozenset(data.draw(st.sets(st.sampled_from(inside))) if inside else ())
    (answer,) = read(layers, query())
    rows = answer.table().to_pylist()
    wanted = []
    for start in starts:
        day = start // DAY
        if day not in final or start in layers.late:
            wanted.append((start, "open", COMMIT, None))
        else:
            wanted.append((start, "superseded" if day in layers.superseded else "final", None, f"run-{day}"))
    assert [tuple(each.values()) for each in answer.periods.to_pylist()] == wanted
    assert {(ms(row), row["state"]) for row in rows} == {each[:2] for each in wanted}
    assert len(rows) == layers.rows.num_rows
    assert rows == sorted(rows, key=lambda row: (row["period"], row["client"], row["path"]))


@pytest.mark.slow
@given(
    given=LINES,
    final=DAYS,
    keep=st.sets(st.sampled_from(["client", "path"])),
    period=st.sampled_from(["1h", "2h", "1d"]),
)
@example(
    given=[(0, 0, 0, 0), (0, 0, 0, 0), (0, 0, 1, 1), (2, 0, 0, 0)], final=frozenset(), keep=set(), period="1d"
)
@examples(60)
def test_a_roll_up_equals_counting_the_lines_that_way(
    given: list[Given], final: frozenset[int], keep: set[str], period: str
) -> None:
    of, kept = task([*ALL_METRICS, "stddev"]), sorted(keep)
    rows = ask(stored(of, given, final), dimensions=kept, period=period)
    wanted = direct(task(), texts(given), kept, period)
    assert close(shown(rows, kept, ALL_METRICS), wanted)
    assert rows == sorted(rows, key=lambda row: (row["period"], *(row[name] for name in kept)))


@pytest.mark.slow
@given(given=LINES, final=DAYS)
@examples(30)
def test_a_roll_up_of_sketches_equals_counting_the_lines_that_way(
    given: list[Given], final: frozenset[int]
) -> None:
    """Few values, so the sketches are exact."""
    metrics = ["unique", "p50", "top3"]
    of, coarse = task(metrics), task(metrics, "1d")
    rows = ask(stored(of, given, final), period="1d")
    assert [{**row, "state": None} for row in rows] == [
        {**row, "state": None} for row in ask(stored(coarse, given, final))
    ]


@given(given=LINES, final=DAYS)
@examples(20)
def test_a_roll_up_to_all_is_one_period(given: list[Given], final: frozenset[int]) -> None:
    rows = ask(stored(task(), given, final), dimensions=[], period="all", metrics=["count"])
    assert [row["count"] for row in rows] == ([len(given)] if given else [])


@pytest.mark.slow
@given(given=LINES, final=DAYS, n=st.integers(1, 4), period=st.sampled_from([None, "1d"]))
@examples(40)
def test_top_series_and_the_others_add_up_to_the_total(
    given: list[Given], final: frozenset[int], n: int, period: str | None
) -> None:
    layers = stored(task(), given, final)
    rows = ask(layers, dimensions=["client"], top=Top(n=n, metric="count"), period=period)
    totals: defaultdict[str, int] = defaultdict(int)
    by_client: defaultdict[str, int] = defaultdict(int)
    for row in ask(layers, dimensions=["client"], period=period):
        totals[str(row["period"])] += row["count"]
        by_client[row["client"]] += row["count"]
    found: defaultdict[str, int] = defaultdict(int)
    for row in rows:
        found[str(row["period"])] += row["count"]
    assert found == totals
    best = sorted(by_client, key=lambda name: (-by_client[name], name))[:n]
    assert {row["client"] for row in rows} - {None} == set(best)
    assert len({(row["period"], row["client"]) for row in rows}) == len(rows)


CONDITIONS: dict[str, tuple[Where, Callable[[dict[str, Any]], bool]]] = {
    "values": (Where(dimension="client", values=("c1", "c3")), lambda row: row["client"] in ("c1", "c3")),
    "prefix": (Where(dimension="path", prefix="/a"), lambda row: row["path"].startswith("/a")),
    "pattern": (Where(dimension="path", pattern=r"\.(png|gif)$"), lambda row: "." in row["path"]),
    "escaped": (Where(dimension="path", values=("/a_b",)), lambda row: row["path"] == "/a_b"),
    "literal": (
        Where(dimension="path", pattern="%5F"),
        lambda row: re.search("%5F", row["path"]) is not None,
    ),
}


@pytest.mark.slow
@given(
    given=LINES, final=DAYS, names=st.sets(st.sampled_from(sorted(CONDITIONS)), max_size=3), data=st.data()
)
@examples(40)
def test_filters_equal_plain_python(
    given: list[Given], final: frozenset[int], names: set[str], data: st.DataObject
) -> None:
    layers = stored(task(), given, final)
    since, until = sorted(data.draw(st.tuples(st.integers(-1, 73), st.integers(-1, 73))))
    since, until = FIRST + since * 3_600_000, FIRST + until * 3_600_000
    rows = ask(layers, since=since, until=until, where=[CONDITIONS[name][0] for name in sorted(names)])
    passing = [CONDITIONS[name][1] for name in names]
    assert rows == [
        row for row in ask(layers) if since <= ms(row) < until and all(passes(row) for passes in passing)
    ]


@pytest.mark.slow
@given(
    given=LINES,
    final=DAYS,
    columns=st.lists(st.sampled_from(["period", "client", "count", "sum", "max"]), unique=True, max_size=3),
    down=st.booleans(),
    page=st.tuples(st.integers(1, 9), st.integers(0, 9)),
)
@example(
    given=[(hour, 0, 0, 0) for hour in (0, 2, 7, 12, 17, 22, 27, 32, 37)],  # more than are read at a time
    final=frozenset(),
    columns=[],
    down=False,
    page=(1, 0),
)
@examples(40)
def test_a_page_is_cut_out_of_everything_in_order(
    given: list[Given], final: frozenset[int], columns: list[str], down: bool, page: tuple[int, int]
) -> None:
    limit, offset = page
    layers = stored(task(), given, final)
    order = [Order(column=name, descending=down) for name in columns]
    rows = ask(layers)
    for name in reversed(columns):  # a value that is missing comes last
        there = [row for row in rows if row[name] is not None]
        rows = sorted(there, key=lambda row: row[name], reverse=down) + [r for r in rows if r[name] is None]
    assert ask(layers, order=order) == rows
    assert ask(layers, order=order, limit=limit, offset=offset) == rows[offset : offset + limit]


@pytest.mark.slow
@given(
    given=LINES,
    final=DAYS,
    period=st.sampled_from([None, "1d", "all"]),
    page=st.tuples(st.integers(1, 9), st.integers(0, 9)),
)
@examples(40)
def test_a_page_says_where_its_rows_are_from_and_whether_there_are_more(
    given: list[Given], final: frozenset[int], period: str | None, page: tuple[int, int]
) -> None:
    limit, offset = page
    layers = stored(task(), given, final)
    starts = sorted(set(layers.rows.column("period_start").to_pylist()))
    coarse = {None: lambda start: start, "1d": lambda start: start // DAY * DAY, "all": lambda _: starts[0]}
    (answer,) = read(layers, query(period=period, limit=limit, offset=offset))
    shown_starts = [ms(row) for row in answer.table().to_pylist()]
    wanted = [each for each in starts if shown_starts[:1] <= [coarse[period](each)] <= shown_starts[-1:]]
    assert answer.periods.column("period_start").to_pylist() == wanted
    assert answer.more == (len(ask(layers, period=period)) > offset + limit)


def test_a_sorted_page_says_where_all_that_was_read_is_from() -> None:
    layers = stored(task(), [(hour, 0, 0, hour) for hour in range(9)])
    (answer,) = read(layers, query(order=[Order(column="sum", descending=True)], limit=1))
    assert (answer.table().num_rows, answer.more) == (1, True)
    assert answer.periods.num_rows == 9


@pytest.mark.slow
def test_only_the_blocks_of_the_time_asked_for_are_read() -> None:
    given = [(hour, client, 0, 1) for hour in range(72) for client in range(5)]
    layers = stored(task(), given, frozenset(range(DAY_NUMBER, DAY_NUMBER + 3)))
    whole = len(ask(layers))
    all_blocks, layers.read_blocks = layers.read_blocks, 0
    assert (whole, len(ask(layers, since=FIRST, until=FIRST + 3_600_000))) == (360, 5)
    assert 0 < layers.read_blocks < all_blocks / 10


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"where": [Where(dimension="host", prefix="x")]}, "where: .* has no 'host': choose of client, path"),
        ({"metrics": ["p99"]}, "metrics: .* has no 'p99'"),
        ({"dimensions": ["host"]}, "dimensions: .* has no 'host'"),
        ({"order": [Order(column="path")], "dimensions": ["client"]}, "order: .* has no 'path'"),
        ({"top": Top(n=1, metric="p99")}, "top: .* has no 'p99'"),
        ({"top": Top(n=1, metric="top3")}, "top: 'top3' is a list"),
        ({"top": Top(n=1, metric="count"), "dimensions": []}, "keep a dimension"),
        ({"period": "90m"}, "period: '90m' is no multiple of .*'1h'"),
    ],
)
def test_a_query_that_the_task_cannot_answer_names_the_field_and_the_remedy(
    fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadQuery, match=message):
        read(stored(task([*ALL_METRICS, "top3"]), []), query(**fields))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Where(dimension="path", pattern="(a"), "pattern: "),
        (lambda: Where(dimension="path", pattern=r"(a)\1"), "back-reference"),
        (lambda: Where(dimension="path"), "exactly one of"),
        (lambda: query(since=2, until=1), "swap them"),
        (lambda: query(period="1 hour"), "is no period"),
        (lambda: Top(n=0, metric="count"), "greater than or equal to 1"),
    ],
)
def test_a_query_that_no_task_can_answer_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        make()


def test_what_would_not_fit_into_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape, "MOST_ROWS", 3)
    layers = stored(task(), [(hour, 0, 0, 1) for hour in range(5)])
    with pytest.raises(shape.TooManyRows, match="a top list reads more than 3 rows"):
        ask(layers, top=Top(n=1, metric="count"))


@pytest.mark.slow
def test_a_million_rows_stream_in_bounded_memory() -> None:
    (answer,) = read(a_million(), query())
    tracemalloc.start()
    before, number, largest, total = pa.total_allocated_bytes(), 0, 0, 0
    for batch in answer.batches():
        number += batch.num_rows
        total += int(pa.compute.sum(batch.column(batch.schema.get_field_index("count"))).as_py())
        largest = max(largest, pa.total_allocated_bytes() - before)
    tracemalloc.stop()
    assert (number, total) == (1_000_000, sum(range(1_000_000)))
    assert largest < 32 << 20, largest


def test_an_answer_is_typed() -> None:
    (answer,) = read(stored(task(["count", "avg", "unique", "top3"]), []), query(dimensions=["path"]))
    assert isinstance(answer, ResultsAnswer)
    assert {f.name: str(f.type) for f in answer.schema} == {
        "period": "timestamp[ms, tz=UTC]",
        "path": "dictionary<values=string, indices=int32, ordered=0>",
        "count": "int64",
        "avg": "double",
        "unique": "double",
        "unique_error": "double",
        "top3": "string",
        "top3_error": "double",
        "state": "dictionary<values=string, indices=int8, ordered=0>",
    }


HOURS: list[Given] = [(hour, 0, 0, 0) for hour in range(4)]


@pytest.mark.parametrize("how", ["recounted", "lost"])
def test_a_period_that_is_being_counted_again_is_said_and_has_no_rows(how: str) -> None:
    """It is on the list when the answer begins, or a block turns out to be lost while it is read."""
    layers = stored(task(), HOURS, frozenset())
    starts = sorted(set(layers.rows.column("period_start").to_pylist()))
    setattr(layers, how, frozenset(starts[1:2]))
    (answer,) = read(layers, query())
    rows = answer.table().to_pylist()
    assert [ms(row) for row in rows] == [starts[0], *starts[2:]]
    assert answer.recounted == [starts[1]]
    states = ["open", "recounting", "open", "open"]
    assert list(zip(starts, states, strict=True)) == [
        (each["period_start"], each["state"]) for each in answer.periods.to_pylist()
    ]
    assert answer.periods.column("commit").to_pylist() == [COMMIT, None, COMMIT, COMMIT]


@pytest.mark.parametrize("period", ["2h", "all"])
def test_a_roll_up_that_lacks_such_a_period_says_so(period: str) -> None:
    layers = stored(task(), HOURS, frozenset())
    starts = sorted(set(layers.rows.column("period_start").to_pylist()))
    layers.recounted = frozenset(starts[:1])
    rows = ask(layers, dimensions=[], period=period)
    assert [row["state"] for row in rows] == ["recounting", "open"][: len(rows)]


def test_a_page_says_only_what_it_reaches() -> None:
    layers = stored(task(), HOURS, frozenset())
    starts = sorted(set(layers.rows.column("period_start").to_pylist()))
    layers.recounted = frozenset(starts[3:])
    (answer,) = read(layers, query(limit=1))
    answer.table()
    assert answer.more
    assert answer.recounted == []
