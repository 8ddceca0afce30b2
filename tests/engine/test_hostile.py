"""Lines and tasks made to break the engine."""

from __future__ import annotations

import re
import time
from typing import Any

import pyarrow as pa
import pytest

from sluice.engine.count import count
from sluice.engine.merge import merge
from sluice.engine.outcomes import DIMENSION_BYTES
from sluice.engine.plan import EnginePlan
from sluice.engine.results import results
from sluice.engine.rowkey import RowKey, series_values
from sluice.runtime.sections import Limits
from sluice.tasks import TaskSpec, TopicSpec
from sluice.tasks.extract import Extract
from sluice.tasks.topic_spec import TimeSpec
from tests.engine.samples import BYTES, LIMITS, active, line, plan, records, spec

MIB = 1 << 20
PATH = {"name": "path", "extract": {"delimiter": " ", "index": 6}}


def series(lines: list[bytes], task: TaskSpec, topic: TopicSpec | None = None) -> dict[tuple[str, ...], int]:
    """Counted lines by dimension values."""
    counted = count(records(lines), EnginePlan.of(active(task), LIMITS, topic))
    assert not counted.failed
    found: dict[tuple[str, ...], int] = {}
    for row in merge(counted.partials).to_pylist():
        found[tuple(series_values(row["key"], len(task.dimensions)))] = row["lines"]
    return found


@pytest.mark.parametrize(
    "value",
    ["_", "__", "%", "%5F", "%255F", "a_b%", "é" * 500, "\x00", "a\x00b", "\\", "'", '"', "<script>", ";",
     "\t", "$(reboot)", "\u202e", "\ufffd", "status_200", "1v1/0/1/0", "\r", "{}", "\x1e\x1f"],
)  # fmt: skip
def test_any_value_comes_out_as_it_went_in(value: str) -> None:
    task = spec(dimensions=[PATH, {"name": "status", "extract": {"delimiter": " ", "index": 8}}])
    assert series([line(path=value), line(path="/")], task) == {(value, "200"): 1, ("/", "200"): 1}
    tasks = {(1, 1): active(task)[0]}
    rows = results(merge(count(records([line(path=value)]), plan(task)).partials), tasks)
    (key,) = (RowKey.decode(row) for row in rows.column("row").to_pylist())
    assert key.dimensions == (("path", value), ("status", "200"))


def test_two_series_never_have_the_same_key() -> None:
    first, second = ({"name": name, "extract": {"delimiter": ";", "index": n}} for n, name in enumerate("ab"))
    stamp = b";[17/May/2015:10:05:03 +0000]"
    pairs = [(a, b) for a in ("x", "x_", "_x", "%", "%5F", "") for b in ("y", "_y", "_", "5F", "")]
    lines = [f"{a};{b}".encode() + stamp for a, b in pairs]
    assert series(lines, spec(dimensions=[first, second])) == dict.fromkeys(pairs, 1)


def test_a_megabyte_a_line() -> None:
    fits = line() + b"x" * (MIB - len(line()))
    counted = count(records([fits, fits + b"x", b"\x00" * 2 * MIB, line()]), plan(spec()))
    assert counted.reason.to_pylist() == [None, *[f"line over {MIB} bytes"] * 2, None]
    assert counted.partials.column("lines").to_pylist() == [2]


@pytest.mark.slow
def test_a_line_that_is_one_value_of_a_megabyte() -> None:
    task = spec(dimensions=[PATH], measure=BYTES, metrics=["count", "sum"])
    counted = count(records([line(path="/" + "x" * 900_000), line(size="9" * 900_000)]), plan(task))
    assert counted.reason.null_count == 2
    assert counted.skipped["reason"].to_pylist() == ["value of dimension path is over 1024 bytes"]
    assert len(counted.skipped["line"][0].as_py()) == 1024
    assert counted.partials.column("measured").to_pylist() == [0]  # no finite number


@pytest.mark.parametrize("garbage", [b"\xff\xfe", b"\xc3", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\x80" * 1000])
def test_bytes_that_are_no_text(garbage: bytes) -> None:
    lines = [garbage, line(path="/a").replace(b"/a", b"/" + garbage), garbage + line(path="/ok"), line()]
    text = garbage.decode(errors="replace")
    longer = len(f"/{text}".encode()) > DIMENSION_BYTES
    expected = {("/ok",): 1, ("/",): 1} | ({} if longer else {(f"/{text}",): 1})
    assert series(lines, spec(dimensions=[PATH])) == expected


@pytest.mark.parametrize("topic_format", ["combined", "delimited", "json"])
def test_garbage_in_every_format(topic_format: str) -> None:
    given: dict[str, Any] = (
        {"columns": ("at", "client"), "delimiter": ";"} if topic_format == "delimited" else {}
    )
    at = {"combined": "time", "delimited": "at", "json": "at"}[topic_format]
    when = TimeSpec(extract=Extract(field=at), format="apache" if topic_format == "combined" else "iso8601")
    topic = TopicSpec(name="shop", format=topic_format, time=when, **given)
    task = spec(topic="shop", dimensions=[{"name": "client", "extract": {"field": "client"}}])
    good = {
        "combined": line(client="c"),
        "delimited": b"2015-05-17T10:05:03Z;c",
        "json": b'{"at": "2015-05-17T10:05:03Z", "client": "c"}',
    }[topic_format]
    garbage = [
        b"", b"\x00", b"\xff" * 100, b"{" * 10_000, b'{"at":' * 10_000, b";" * 10_000, b'"' * 10_000,
        b"[" * 10_000, b'{"at": {"at": 1}, "client": "c"}',
        b'{"at": "2015-05-17T10:05:03Z"', good[:-2] * 2, b" " * 10_000,
    ]  # fmt: skip
    found = series([good, *garbage, good], task, topic)
    assert found["c",] >= 2
    assert sum(found.values()) <= 3  # two good lines run together may be one


CATASTROPHIC = [
    r"(a+)+$",
    r"(a|aa)+$",
    r"(a|a)*b",
    r"^(([a-z])+.)+[A-Z]([a-z])+$",
    r"(.*)*x",
    r"(?:a?){50}a{50}",
]


@pytest.mark.parametrize("pattern", CATASTROPHIC)
def test_patterns_that_hang_a_backtracking_engine(pattern: str) -> None:
    re.compile(pattern)  # Python compiles it, but would never finish matching it
    evil = line(path="/" + "a" * 1_000 + "!")
    task = spec(
        dimensions=[{"name": "found", "extract": {"regex": pattern}}],
        where=[{"extract": PATH["extract"], "filter": {"mode": "black", "regex": pattern}}],
    )
    start = time.process_time()
    count(records([evil] * 2_000), plan(task))
    assert time.process_time() - start < 20  # 2.5 MB of lines; `re` would need forever for any one of them


@pytest.mark.slow
def test_a_hundred_thousand_series_and_one_more() -> None:
    stamp = b";[17/May/2015:10:05:03 +0000]"
    task = spec(dimensions=[{"name": "n", "extract": {"delimiter": ";", "index": 0}}])
    lines = [str(n).encode() + stamp for n in range(100_001)]
    within = count(records(lines[:-1]), plan(task, spec()))
    assert not within.failed
    assert within.partials.num_rows == 100_000
    beyond = count(records(lines), plan(task, spec(dimensions=[])))
    assert beyond.partials.column("lines").to_pylist() == [100_001]  # the other task goes on
    assert "100,001 series in one period, 100,000 are allowed (limits.series)" in beyond.failed[1, 1]


@pytest.mark.slow
def test_a_thousand_tasks() -> None:
    specs = [spec(name=f"t{n}", period=f"{n + 1}s") for n in range(1_000)]
    counted = count(records([line()] * 10), plan(*specs))
    assert not counted.failed
    assert counted.partials.num_rows == 1_000


def test_an_empty_pattern_an_empty_value_and_a_nul_in_a_filter() -> None:
    extract = {"delimiter": ";", "index": 0}
    stamp = b";[17/May/2015:10:05:03 +0000]"
    for filter_, expected in (
        ({"mode": "white", "values": [""]}, {"": 1}),
        ({"mode": "black", "values": ["", "\x00"]}, {"x": 1}),
        ({"mode": "white", "regex": "\\x00"}, {"\x00": 1}),
        ({"mode": "white", "regex": "$"}, {"": 1, "x": 1, "\x00": 1}),
    ):
        task = spec(dimensions=[{"name": "v", "extract": extract, "filter": filter_}])
        assert series([b"x" + stamp, b"\x00" + stamp, stamp], task) == {(v,): n for v, n in expected.items()}


def test_slices_and_null_free_buffers() -> None:
    batch = records([b"x", *[line()] * 3, b"\xff"])
    sliced = pa.Table.from_batches([batch]).slice(1, 3)
    assert count(sliced, plan(spec(), limits=Limits())).partials.column("lines").to_pylist() == [3]
