from __future__ import annotations

import math
import pickle
from collections import Counter
from datetime import UTC, datetime
from itertools import product
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.engine import count as module
from sluice.engine import extract
from sluice.engine.count import count
from sluice.engine.cut import COMPILED_LINES
from sluice.engine.merge import merge
from sluice.engine.plan import EnginePlan, Range
from sluice.engine.results import results
from sluice.engine.rowkey import series_values
from sluice.engine.schema import partials_schema
from sluice.runtime.sections import Limits
from sluice.tasks import TaskSpec
from tests.engine.samples import ALL_METRICS, BYTES, active, by_hand, line, plan, records, spec
from tests.examples import examples

STATUS = {"name": "status", "extract": {"delimiter": " ", "index": 8}}
CLIENT = {"name": "client", "extract": {"delimiter": " ", "index": 0}}
PATH = {"name": "path", "extract": {"delimiter": " ", "index": 6}}
DIRECTORY = {"name": "directory", "extract": {"delimiter": " ", "index": 6, "regex": "^(/[^/]*)"}}
NOT_304 = {"extract": {"delimiter": " ", "index": 8}, "filter": {"mode": "black", "values": ["304"]}}

TASKS = [
    spec(name="by_status", metrics=ALL_METRICS, measure=BYTES),
    spec(name="total", period="1d", dimensions=[], metrics=ALL_METRICS, measure=BYTES),
    spec(name="clients", period="5m", dimensions=[CLIENT], where=[NOT_304]),
    spec(name="three", period="1h", dimensions=[CLIENT, STATUS, DIRECTORY], metrics=["count"]),
    spec(
        name="white",
        period="1s",
        dimensions=[{**STATUS, "filter": {"mode": "white", "regex": "^[23]"}}, PATH],
        metrics=["count", "max"],
        measure=BYTES,
    ),
    spec(name="by_regex", dimensions=[{"name": "s", "extract": {"regex": '" (\\d{3}) '}}], period="31d"),
    spec(name="absent", dimensions=[{"name": "x", "extract": {"delimiter": "\t", "index": 3}}]),
]

#: Texts that are numbers, texts that only look like one, and numbers that are too large.
NUMBERS = [
    "",
    *["-", "0", "17", "abc", "nan", "inf", "1e400", "1e100", "-1.1e100", "0x1F", "1_0", ".5", "-3", "+7"],
]
hostile = st.sampled_from(["_", "%", "%5F", "%25", "a_b", "", "é", "\x00", "<b>", "'", "\t", "_" * 5])
lines_of = st.lists(
    st.one_of(
        st.builds(
            line,
            client=st.one_of(st.sampled_from(["10.0.0.1", "10.0.0.2"]), hostile),
            at=st.datetimes(datetime(2015, 5, 17), datetime(2015, 5, 19)).map(
                lambda t: t.replace(tzinfo=UTC)
            ),
            path=st.one_of(st.sampled_from(["/", "/a/b", "/a/c", "nothing"]), hostile),
            status=st.sampled_from(["200", "304", "404", "-", "5"]),
            size=st.one_of(
                st.sampled_from(NUMBERS),
                st.integers(-(2**50), 2**50).map(str),
                st.floats(-1e6, 1e6).map(repr),
            ),
        ),
        st.sampled_from([b"", b"no time here", b"\xff\xfe", b"[31/Feb/2015:10:00:00 +0000] x"]),
        st.just(line(path="/caf\xe9").replace(b"\xc3\xa9", b"\xe9")),
    ),
    max_size=40,
)

Found = dict[tuple[int, tuple[str, ...]], dict[str, float]]


def engine(table: pa.Table, specs: list[TaskSpec]) -> list[Found]:
    """The results of merged partials, one dictionary per task."""
    tasks = active(*specs)
    found: list[Found] = [{} for _ in tasks]
    for row in results(merge(table), {(t.task_id, t.version): t for t in tasks}).to_pylist():
        dimensions = len(specs[row["task_id"] - 1].dimensions)
        series = row["period_start"], tuple(series_values(row["key"], dimensions))
        found[row["task_id"] - 1].setdefault(series, {})[row["metric"]] = float(row["text"])
    return found


def same(found: Found, expected: Found, metrics: tuple[str, ...]) -> None:
    assert found.keys() == expected.keys()
    for series, values in expected.items():
        wanted = {m: v for m, v in values.items() if m in metrics}
        assert found[series].keys() == wanted.keys()
        for name, value in wanted.items():
            assert math.isclose(found[series][name], value, rel_tol=1e-9, abs_tol=1e-6), (series, name)


@examples(20)
@given(lines_of)
def test_counts_what_a_loop_over_the_lines_counts(lines: list[bytes]) -> None:
    counted = count(records(lines), plan(*TASKS))
    assert counted.partials.schema == partials_schema()
    for task, found in zip(TASKS, engine(counted.partials, TASKS), strict=True):
        same(found, by_hand(lines, task), task.metrics)


@examples(12)
@given(lines_of, st.integers(0, 40), st.integers(0, 40))
def test_any_split_gives_the_same(lines: list[bytes], one: int, other: int) -> None:
    a, b = sorted((one, other))
    parts = [count(records(p), plan(*TASKS)).partials for p in (lines[b:], lines[:a], lines[a:b])]
    whole = engine(count(records(lines), plan(*TASKS)).partials, TASKS)
    for task, found, expected in zip(TASKS, engine(pa.concat_tables(parts), TASKS), whole, strict=True):
        same(found, expected, task.metrics)


def test_a_line_is_counted_or_has_a_reason() -> None:
    lines = [line(), b"no time", line(path="/" + "x" * 2000), line(path="/" + "y" * 1023), b"z" * 9000]
    limits = Limits(line_bytes=8000)
    counted = count(records(lines), plan(spec(), spec(name="paths", dimensions=[PATH]), limits=limits))
    assert counted.reason.to_pylist() == [
        None,
        "no event time",
        None,
        None,
        "line over 8000 bytes",
    ]
    by_status, paths = engine(counted.partials, [spec(), spec(name="paths", dimensions=[PATH])])
    # Only the task that looks at the path skips the line with the long one.
    assert sum(v["count"] for v in by_status.values()) == 3
    assert sum(v["count"] for v in paths.values()) == 2


def test_the_limit_is_in_bytes_of_utf8() -> None:
    task = spec(dimensions=[PATH])
    fits, over = line(path="é" * 512), line(path="é" * 512 + "a")
    (found,) = engine(count(records([fits, over]), plan(task)).partials, [task])
    assert [series for _, (series,) in found] == ["é" * 512]


def test_bytes_that_are_not_utf8_do_not_break_the_batch() -> None:
    broken = line(path="/X").replace(b"/X", b"/\xff\xc3(")
    counted = count(records([broken, line(path="/ok")]), plan(spec(dimensions=[PATH])))
    assert set(counted.partials.column("key").to_pylist()) == {"/\ufffd\ufffd(", "/ok"}


def test_a_version_counts_its_offsets_alone() -> None:
    tasks = active(spec(), spec(name="other"), spec(name="never"))
    ranges: dict[tuple[int, int], list[Range]] = {
        (1, 1): [Range.of({"0": 2}, {"0": 5}), Range.of({"0": 8})],  # paused between 5 and 8
        (2, 1): [Range.of({}, {})],
    }
    made = EnginePlan.of(tasks, Limits(), ranges=ranges)
    table = count(records([line()] * 10), made).partials
    assert {(r["task_id"], r["lines"]) for r in table.to_pylist()} == {(1, 5)}
    # While the version is active, a partition that came later is counted from its beginning.
    table = count(records([line()] * 10, partition=7), made).partials
    assert {(r["task_id"], r["lines"]) for r in table.to_pylist()} == {(1, 10)}


def test_a_plan_can_be_shipped() -> None:
    made = pickle.loads(pickle.dumps(plan(*TASKS)))  # noqa: S301
    assert made == plan(*TASKS)
    assert count(records([line()]), made).partials.num_rows == len(TASKS) - 1


@pytest.mark.parametrize("lines", [[], [b"no time"]])
def test_nothing_to_count(lines: list[bytes]) -> None:
    counted = count(records(lines), plan(*TASKS))
    assert counted.partials.equals(partials_schema().empty_table())
    assert len(counted.reason) == len(counted.event_ms) == len(lines)


def test_tables_and_no_tasks() -> None:
    batch = records([line(), b"x"])
    counted: Any = count(pa.Table.from_batches([batch, batch]), plan())
    assert counted.partials.num_rows == 0
    assert counted.reason.to_pylist() == [None, "no event time"] * 2


def test_periods_far_apart_and_many_dimensions_do_not_overflow() -> None:
    dims: list[Any] = [{**CLIENT, "name": f"c{n}"} for n in range(8)]
    task = spec(period="1s", dimensions=dims)
    years = range(1971, 9990, 20)
    lines = [line(client=f"c{y}", at=datetime(y, 1, 1, tzinfo=UTC)) for y in years for _ in range(2)]
    (found,) = engine(count(records(lines), plan(task)).partials, [task])
    assert len(found) == len(years)
    assert {v["count"] for v in found.values()} == {2}
    assert all(set(series) == {f"c{datetime.fromtimestamp(s / 1000, UTC).year}"} for s, series in found)


@pytest.mark.parametrize("lines", [10, 2 * COMPILED_LINES])
def test_what_tasks_share_is_computed_once(lines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: Counter[str] = Counter()

    def counted(module: ModuleType, name: str) -> None:
        inner = getattr(module, name)

        def counting(*given: Any) -> Any:
            calls[name] += 1
            return inner(*given)

        monkeypatch.setattr(module, name, counting)

    for name in ("cut", "_match"):
        counted(extract, name)
    for name in ("passing", "numbers", "escape_column"):
        counted(module, name)
    first_of_path = {"delimiter": " ", "index": 6, "regex": "^/([^/]*)"}
    dimension = {"name": "section", "extract": first_of_path, "filter": {"mode": "black", "regex": "^x"}}
    status = {"extract": {"delimiter": " ", "index": 8}, "filter": {"mode": "white", "values": ["200"]}}
    shared = {"dimensions": [dimension], "where": [status], "measure": BYTES}
    alike = [
        spec(name=f"t{n}", period=period, metrics=metrics, **shared)
        for n, (period, metrics) in enumerate(product(("1m", "1h", "1d"), (["sum"], ["count", "p95"])))
    ]
    text = [line(path=f"/{n % 7}/{n}", size=str(n)) for n in range(lines)]
    found = count(records(text), plan(*alike)).partials
    assert set(found.column("task_id").to_pylist()) == set(range(1, 7))
    assert calls == {"cut": 1, "_match": 1, "passing": 2, "numbers": 1, "escape_column": 1}
