"""Named fields of the three formats, and values cut out of them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.engine.count import count
from sluice.engine.extract import BatchLines
from sluice.engine.fields import NoSuchField
from sluice.engine.plan import EnginePlan
from sluice.runtime.sections import Limits
from sluice.tasks import TopicSpec
from sluice.tasks.extract import Extract
from sluice.tasks.topic_spec import TimeSpec
from tests.engine.samples import active, line, records, spec
from tests.examples import examples

COMBINED = TopicSpec()
DELIMITED = TopicSpec(
    name="shop",
    format="delimited",
    delimiter=";",
    columns=("at", "client", "amount"),
    time=TimeSpec(extract=Extract(field="at"), format="iso8601"),
)
JSON = TopicSpec(name="shop", format="json", time=TimeSpec(extract=Extract(field="at"), format="iso8601"))


def cut(topic: TopicSpec, lines: list[bytes], **extract: Any) -> list[str | None]:
    values = BatchLines(pa.array(lines, pa.binary()), {}, topic).values(Extract(**extract))
    distinct = [*values.distinct.to_pylist(), None]
    return [distinct[code] for code in values.codes.tolist()]


def test_fields_of_an_access_log() -> None:
    combined = (
        rb'10.0.0.1 - jo [17/May/2015:10:05:03 +0000] "GET /a?x=y HTTP/1.1" 200 512 "http://r/" "M \"x\""'
    )
    found = {
        field: cut(COMBINED, [combined], field=field)[0] for field in ("client", "user", "time", "agent")
    }
    assert found == {
        "client": "10.0.0.1",
        "user": "jo",
        "time": "17/May/2015:10:05:03 +0000",
        "agent": 'M \\"x\\"',
    }
    assert cut(COMBINED, [combined], field="path", regex=r"\?(\w)=") == ["x"]
    assert cut(COMBINED, [combined], field="referer") == ["http://r/"]


def test_a_field_that_an_access_log_lacks_is_nothing() -> None:
    common = b'h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.0" 304 -'
    odd = b'h - - [17/May/2015:10:05:03 +0000] "-" 408 0 "-" "-"'
    lines = [common, odd, b"no access log", b"", b"\xff\x00"]
    assert cut(COMBINED, lines, field="agent") == [None, "-", None, None, None]
    assert cut(COMBINED, lines, field="path") == ["/", None, None, None, None]
    assert cut(COMBINED, lines, field="method") == ["GET", "-", None, None, None]
    assert cut(COMBINED, lines, field="bytes") == ["-", "0", None, None, None]
    assert cut(COMBINED, lines, field="status") == ["304", "408", None, None, None]


def test_columns_of_a_delimited_topic_are_their_index() -> None:
    lines = [b"2015-05-17T10:05:03Z;c1;5;more", b"x;c2", b"", b";;"]
    assert cut(DELIMITED, lines, field="client") == ["c1", "c2", None, ""]
    assert cut(DELIMITED, lines, field="amount") == ["5", None, None, ""]
    by_name, by_index = (
        EnginePlan.of(active(spec(dimensions=[{"name": "c", "extract": extract}])), Limits(), DELIMITED)
        for extract in ({"field": "client"}, {"delimiter": ";", "index": 1})
    )
    assert by_name == by_index


OBJECT = {
    "a": {"b": 'x"é\n', "n": 1.10, "t": True, "z": None, "o": {"k": [1, "two"]}, "0": "zero"},
    "l": [10, {"q": "in"}],
    "a.b": "dotted",
    "a/b": "slashed",
    "it's": "quoted",
    "": "empty",
}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("a.b", 'x"é\n'),
        ("/a/b", 'x"é\n'),
        ("/a.b", "dotted"),
        ("/a~1b", "slashed"),
        ("/", "empty"),
        ("a.n", "1.1"),
        ("a.t", "true"),
        ("a.z", None),
        ("a.o", '{"k":[1,"two"]}'),
        ("a.o.k.1", "two"),
        ("l.0", "10"),
        ("/l/1/q", "in"),
        ("l.7", None),
        ("a.0", "zero"),
        ("it's", "quoted"),
        ("nope", None),
        ("a.b.c", None),
        ("*", None),
        ("a']['b", None),
        ("$", None),
    ],
)
def test_fields_of_json(field: str, value: str | None) -> None:
    lines = [json.dumps(OBJECT).encode(), b"[]", b"{", b"", b"17", b"\xff", b'{"a":' * 5_000]
    assert cut(JSON, lines, field=field) == [value, None, None, None, None, None, None]


keys = st.text(
    st.characters(exclude_characters="\\\"'~", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=5
)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@examples(30)
@given(st.lists(st.dictionaries(keys, st.dictionaries(keys, texts, max_size=3), max_size=3), max_size=6))
def test_json_agrees_with_the_standard_library(found: list[dict[str, dict[str, str]]]) -> None:
    lines = [json.dumps(each, ensure_ascii=len(each) % 2 == 0).encode() for each in found]
    for outer, inner in {(o, i) for each in found for o, values in each.items() for i in values}:
        pointer = "/" + "/".join(key.replace("~", "~0").replace("/", "~1") for key in (outer, inner))
        expected = [each.get(outer, {}).get(inner) for each in found]
        assert cut(JSON, lines, field=pointer) == expected


@pytest.mark.parametrize(
    ("topic", "field", "match"),
    [
        (COMBINED, "colour", "no field 'colour': use one of client"),
        (DELIMITED, "colour", "use one of at, client, amount"),
        (JSON, "a\\b", "backslash"),
        (JSON, "1.2.3.4", "4 keys that are numbers"),
    ],
)
def test_fields_that_cannot_be_named(topic: TopicSpec, field: str, match: str) -> None:
    with pytest.raises(NoSuchField, match=match):
        cut(topic, [b"{}"], field=field)


def test_a_task_whose_field_cannot_be_named_is_set_aside() -> None:
    wrong, right = (
        spec(name=name, dimensions=[{"name": "d", "extract": {"field": name}}])
        for name in ("colour", "status")
    )
    counted = count(records([line()]), EnginePlan.of(active(wrong, right), Limits()))
    assert counted.partials.column("key").to_pylist() == ["200"]
    assert list(counted.failed) == [(1, 1)]
    assert "no field 'colour'" in counted.failed[1, 1]


def test_tasks_on_each_format_count_the_same() -> None:
    rows = [("2015-05-17T10:05:03Z", f"c{n % 3}", str(n)) for n in range(20)]
    shop = [
        (DELIMITED, [";".join(row).encode() for row in rows]),
        (JSON, [json.dumps(dict(zip(DELIMITED.columns, row, strict=True))).encode() for row in rows]),
    ]
    task = spec(
        topic="shop",
        dimensions=[{"name": "client", "extract": {"field": "client"}}],
        measure={"field": "amount"},
        metrics=["count", "sum", "max"],
    )
    one, other = (
        count(records(lines), EnginePlan.of(active(task), Limits(), topic)) for topic, lines in shop
    )
    assert one.partials.equals(other.partials)
    assert one.partials.column("isum").to_pylist() == [63, 70, 57]
    assert one.reason.null_count == len(rows)
