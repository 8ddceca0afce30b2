"""The engine's kernels against their twins in numpy and pyarrow, which small batches take.

They are `kernels.access_log`, `kernels.dictionaries` and `kernels.words`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.engine import count as counting
from sluice.engine import cut as cutting
from sluice.engine import fields, parse
from sluice.engine.access_log import CompiledAccessLog, named
from sluice.engine.count import count
from sluice.engine.cut import Encoded, _Compiled, _Split, cut
from sluice.engine.merge import merge
from sluice.engine.parse import _by_position, _compiled
from sluice.engine.schema import KEYS
from sluice.spark.warm import warm
from sluice.tasks import TaskSpec
from sluice.tasks.topic_spec import COMBINED_FIELDS
from tests.engine.samples import ALL_METRICS, BYTES, by_hand, line, plan, records, spec
from tests.engine.test_count import TASKS, engine, lines_of, same
from tests.examples import examples

STAMP = b"17/May/2015:10:05:03 +0200"


@pytest.fixture
def compiled() -> Iterator[None]:
    """Send batches of any size through the kernels."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (cutting, fields, parse, counting):
            patch.setattr(module, "COMPILED_LINES", 0)
        yield


def values(encoded: Encoded) -> list[str | None]:
    codes, distinct = encoded
    words = [*distinct.to_pylist(), None]
    assert len(set(words)) == len(words)  # each once
    return [words[code] for code in codes.tolist()]


@examples(60)
@given(
    st.lists(st.text(st.sampled_from(" ;abé\x00_"), max_size=12), max_size=30),
    st.sets(st.integers(0, 5), min_size=1),
    st.sampled_from([" ", ";", "\x00", "a"]),
    st.integers(0, 3),
)
def test_cutting(lines: list[str], indexes: set[int], delimiter: str, skipped: int) -> None:
    text = pa.array(lines, pa.string()).slice(min(skipped, len(lines)))
    wanted = sorted(indexes)
    one, other = _Split(text, delimiter, wanted), _Compiled(text, delimiter, wanted)
    for index in wanted:
        assert values(one.column(index)) == values(other.column(index))
        expected = [(*each.split(delimiter), *[None] * 6)[index] for each in text.to_pylist()]
        assert values(other.column(index)) == expected


def test_delimiters_of_several_bytes_are_cut_by_pyarrow() -> None:
    lines = pa.array(["a::b:c"] * 10_000)
    assert isinstance(cut(lines, "::", [1]), _Split)
    assert isinstance(cut(lines, "é", [1]), _Split)
    assert isinstance(cut(lines, ":", [1]), _Compiled)
    assert set(values(cut(lines, "::", [1]).column(1))) == {"b:c"}


@pytest.mark.slow
def test_a_hundred_thousand_distinct_values_and_a_million_bytes() -> None:
    texts = pa.array([f"{n} x" for n in range(100_000)] + ["y" * 1_000_000 + " z"])
    first = cut(texts, " ", [0, 1])
    assert values(first.column(0)) == [t.split(" ")[0] for t in texts.to_pylist()]
    assert first.column(1)[1].to_pylist() == ["x", "z"]


#: What an access log's line is made of, and what breaks it.
PIECES = st.sampled_from(
    [
        "h", "-", "john", "doe", " ", " ", " ", "  ", "[17/May/2015:10:05:03 +0000]", "[", "]",
        '"', '"', "\\", '\\"', "GET", "/a", "/two words", "HTTP/1.1", "HTTP/", "/1.0", "A/1",
        "200", "40", "4044", "5", "-5", "1e6", "é",
        "\t", "\n", "\v", "\f", "\r", "\x00", "\x85", "\u2028", "\\x16\\x03", "\ufffd", "x" * 9, ".", "/",
    ]
)  # fmt: skip
HOSTILE_TEXT = st.lists(PIECES, max_size=12).map("".join)
REQUESTS = HOSTILE_TEXT | st.builds(
    " ".join, st.lists(st.sampled_from(["GET", "/a", "HTTP/1.1", "", "b/2", "B/", "B/.", "é"]), max_size=5)
)
ACCESS = st.builds(
    '{} {} {} [{}] "{}" {} {}{}'.format,
    st.just("10.0.0.1") | HOSTILE_TEXT,
    st.just("-") | HOSTILE_TEXT,
    st.sampled_from(["-", "", "john doe", " "]) | HOSTILE_TEXT,
    st.just("17/May/2015:10:05:03 +0000") | HOSTILE_TEXT,
    REQUESTS,
    st.sampled_from(["200", "404", "20", "2000"]) | HOSTILE_TEXT,
    st.sampled_from(["5", "-", "-5", "--", "1e6", "5x"]) | HOSTILE_TEXT,
    st.sampled_from(["", ' "-" "x"', ' "r"', ' "r" "a', ' "a \\"b\\" c" "d\\\\"', "\r"]) | HOSTILE_TEXT,
)


@pytest.mark.slow
@examples(600)
@given(st.lists(ACCESS | HOSTILE_TEXT, max_size=12), st.integers(0, 3))
def test_the_fields_of_an_access_log(lines: list[str], skipped: int) -> None:
    text = pa.array(lines, pa.string()).slice(min(skipped, len(lines)))
    one, other = named(text), CompiledAccessLog(text)
    for field in COMBINED_FIELDS:
        expected = [value or None for value in one[field].to_pylist()]  # nothing there is nothing
        assert values(other.column(field)) == expected, field


LONG = st.integers(0, 40).map(lambda n: "0123456789abcdefghijklmnopqrstuvwxyzABCD"[:n])


@examples(60)
@given(st.lists(st.lists(st.one_of(LONG, st.sampled_from(["", "a", "b", "é" * 9])), max_size=5), max_size=40))
def test_values_of_any_length_are_told_apart(rows: list[list[str]]) -> None:
    text = pa.array([" ".join(row) for row in rows], pa.string())
    found = _Compiled(text, " ", [0, 2, 4])
    for index in (0, 2, 4):
        expected = [(*each.split(" "), *[None] * 5)[index] for each in text.to_pylist()]
        assert values(found.column(index)) == expected


def test_values_that_differ_in_one_bit_or_in_their_length_are_told_apart() -> None:
    texts = ["x" * size for size in range(1, 70)]
    texts += [text[:at] + "y" + text[at + 1 :] for text in texts for at in range(len(text))]
    found = _Compiled(pa.array(texts), " ", [0]).column(0)
    assert values(found) == texts


def test_the_twelve_months_and_a_stamp_after_each_place() -> None:
    lines = [
        b"x" * before + f"[17/{month}/2015:10:05:0{second} +0000] ".encode()
        for before in range(20)
        for month in ("Jan", "Dec", "Foo", "Feb")
        for second in (1, 1, 2)
    ]
    for one, other in zip(_by_position(pa.array(lines)), _compiled(pa.array(lines)), strict=True):
        np.testing.assert_array_equal(one, other)


@st.composite
def nearly_stamps(draw: st.DrawFn) -> bytes:
    """A stamp, with some of its characters replaced, somewhere in a line."""
    stamp = bytearray(b"[" + STAMP + b"]")
    for at in draw(st.lists(st.integers(0, len(stamp) - 1), max_size=3)):
        stamp[at] = draw(st.sampled_from(b"0123456789[]/: +-JanFebDecz\xff"))
    prefix = draw(st.sampled_from([b"", b"h - - ", b"[", b"\xff\xfe ", b"x" * 40]))
    return prefix + bytes(stamp)[: draw(st.integers(0, 40))] + draw(st.sampled_from([b"", b" ", b"]", b"x"]))


@examples(150)
@given(st.lists(nearly_stamps(), min_size=1, max_size=20))
def test_stamps(lines: list[bytes]) -> None:
    column = pa.array(lines, pa.binary())
    for one, other in zip(_by_position(column), _compiled(column), strict=True):
        np.testing.assert_array_equal(one, other)


@examples(40)
@given(st.lists(st.datetimes(datetime(1970, 1, 2), datetime(9998, 12, 30)), min_size=1, max_size=20))
def test_dates(times: list[datetime]) -> None:
    zoned = [t.replace(microsecond=0, tzinfo=UTC) for t in times]
    lines = pa.array([t.strftime("[%d/%b/%Y:%H:%M:%S %z] x").encode() for t in zoned], pa.binary())
    ms, valid, shaped = _compiled(lines)
    assert valid.all()
    assert shaped.all()
    assert ms.tolist() == [int(t.timestamp()) * 1000 for t in zoned]


@pytest.mark.usefixtures("compiled")
@examples(20)
@given(lines_of)
def test_counting_by_kernels_is_counting_by_hand(lines: list[bytes]) -> None:
    counted = count(records(lines), plan(*TASKS))
    assert not counted.failed
    for task, found in zip(TASKS, engine(counted.partials, TASKS), strict=True):
        same(found, by_hand(lines, task), task.metrics)


@pytest.mark.slow
def test_large_batches_and_small_ones_count_the_same() -> None:
    rng = np.random.default_rng(3)
    lines = [
        line(
            client=f"10.0.{a}.{b}",
            path=f"/p_{c}",
            status=("200", "304", "404")[a % 3],
            size="-" if b == 0 else str(c),
        )
        for a, b, c in rng.integers(0, 40, (20_000, 3)).tolist()
    ]
    not_304 = {"extract": {"delimiter": " ", "index": 8}, "filter": {"mode": "black", "values": ["304"]}}
    dims = [{"name": n, "extract": {"delimiter": " ", "index": i}} for n, i in (("c", 0), ("p", 6), ("s", 8))]
    made: list[TaskSpec] = [
        spec(name="all", dimensions=dims, where=[not_304], measure=BYTES, metrics=ALL_METRICS),
        spec(name="one", dimensions=dims[:1], measure=BYTES, metrics=ALL_METRICS),
        spec(name="same_groups", dimensions=dims[:1]),
        spec(name="filtered", dimensions=[dims[2] | {"filter": {"mode": "white", "regex": "^[34]"}}]),
        spec(name="nothing", dimensions=[{"name": "x", "extract": {"delimiter": "|", "index": 1}}]),
        spec(name="total", period="1d", dimensions=[], where=[not_304]),
        # More combinations than a 64-bit number holds.
        spec(name="wide", dimensions=[{**dims[n % 2], "name": f"w{n}"} for n in range(8)]),
    ]
    large = count(records(lines), plan(*made))
    small = [
        count(records(lines[at : at + 4_000]), plan(*made)).partials for at in range(0, len(lines), 4_000)
    ]

    def rows(table: pa.Table) -> list[dict[str, object]]:
        return sorted(table.to_pylist(), key=lambda row: tuple(str(row[name]) for name in KEYS))

    assert not large.failed
    assert rows(large.partials) == rows(merge(pa.concat_tables(small)))


def test_warming_up_goes_through_every_step() -> None:
    warm()
