from __future__ import annotations

import pickle
from typing import Any

import pytest

from sluice.tasks import ActiveTask, TaskSpec, TasksRefused, parse_documents
from sluice.tasks.extract import Extract, Filter
from sluice.tasks.period import Period
from tests.engine.samples import BYTES, spec


def refused(**fields: Any) -> str:
    with pytest.raises(TasksRefused) as error:
        spec(**fields)
    return str(error.value)


def dimension(**extract: Any) -> list[Any]:
    return [{"name": "d", "extract": extract}]


def test_a_spec_survives_its_json() -> None:
    task = spec(
        where=[{"extract": {"regex": "x(.)"}, "filter": {"mode": "white", "values": ["a", "b"]}}],
        measure=BYTES,
        metrics=["sum", "missing"],
    )
    assert TaskSpec.model_validate(task.model_dump(mode="json", exclude_none=True)) == task
    assert pickle.loads(pickle.dumps(task)) == task  # noqa: S301
    assert hash(task) == hash(spec(**task.model_dump(mode="json", exclude_none=True)))


def test_a_label_is_id_and_version() -> None:
    assert ActiveTask(3, 2, spec()).label == "3v2"


@pytest.mark.parametrize("name", ["", "A", "1a", "a b", "a/b", "é", "a" * 65, "<b>"])
def test_names_are_bounded(name: str) -> None:
    assert "/0/name" in refused(name=name)
    assert "/0/dimensions/0/name" in refused(dimensions=[{"name": name, "extract": BYTES}])


@pytest.mark.parametrize(
    ("extract", "says"),
    [
        ({}, "nothing to extract by"),
        ({"index": 1}, "nothing to extract by"),
        ({"regex": "a", "index": 1}, "index 1 without a delimiter"),
        ({"delimiter": " "}, "delimiter ' ' without an index"),
        ({"delimiter": " ", "index": -1}, "-1: input should be greater than or equal to 0"),
        ({"delimiter": " ", "index": 1024}, "less than or equal to 1023"),
        ({"delimiter": " ", "index": "8"}, "'8': a whole number is expected, without quotes"),
        ({"delimiter": "", "index": 0}, "at least 1 character"),
        ({"delimiter": " ", "index": 0, "group": 1}, "group 1 without a regex"),
        ({"regex": "(a)", "group": 2}, "group 2 of a pattern with 1 groups: use 0 (the whole match) to 1"),
        ({"regex": "a(?=b)"}, "look-ahead"),
        ({"regex": "(a)\\1"}, "a back-reference"),
        ({"regex": "("}, "unclosed group"),
        ({"regex": "a{1000}{1000}"}, "smaller repetition counts"),
        ({"regex": "a" * 1025}, "1025 characters, 1024 are allowed"),
        ({"field": "status", "index": 0}, "field 'status' and a delimiter or an index"),
        ({"field": "status", "delimiter": " ", "index": 0}, "a value is cut out by one of them"),
        ({"field": "status", "group": 1}, "group 1 without a regex"),
        ({"field": ""}, "at least 1 character"),
        ({"delimiter": " ", "index": 0, "fields": 3}, "/fields: there is no such key here"),
    ],
)
def test_an_extraction_that_cannot_work_is_refused(extract: dict[str, Any], says: str) -> None:
    message = refused(dimensions=dimension(**extract))
    assert says in message
    assert message.startswith("/0/dimensions/0/extract")
    assert says in refused(where=[{"extract": extract, "filter": {"mode": "white", "values": ["a"]}}])


@pytest.mark.parametrize(
    ("regex", "group", "taken"), [("a", None, 0), ("(a)(b)", None, 1), ("(a)(b)", 2, 2), ("(a)", 0, 0)]
)
def test_the_capture_group(regex: str, group: int | None, taken: int) -> None:
    task = spec(dimensions=dimension(regex=regex, **({} if group is None else {"group": group})))
    assert task.dimensions[0].extract.capture == taken


@pytest.mark.parametrize(
    ("filter_", "says"),
    [
        ({"mode": "white"}, "either values or a regex or a set"),
        ({"mode": "white", "values": ["a"], "regex": "a"}, "either values or a regex or a set"),
        ({"mode": "grey", "values": ["a"]}, "'grey': input should be 'white' or 'black'"),
        ({"mode": "white", "values": [304]}, '304: a text is expected: put it in quotes, e.g. "304"'),
        ({"mode": "white", "values": []}, "at least 1 item"),
        ({"mode": "white", "values": "304"}, "'304': a list is expected"),
        ({"mode": "white", "regex": "(?<!a)b"}, "look-ahead and look-behind need backtracking"),
        ({"values": ["a"]}, "/mode: this key is missing"),
    ],
)
def test_a_filter_that_cannot_work_is_refused(filter_: dict[str, Any], says: str) -> None:
    assert says in refused(dimensions=[{"name": "d", "extract": BYTES, "filter": filter_}])


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"metrics": ["median"]}, "/0/metrics: metric 'median' is not known: use one of count"),
        ({"metrics": []}, "at least 1 item"),
        ({"metrics": ["count", "count"]}, "'count' is named twice"),
        ({"metrics": ["sum"]}, "metrics sum need a measure"),
        ({"measure": BYTES}, "the measure is used by no metric"),
        ({"measure": {**BYTES, "type": "text"}, "metrics": ["sum"]}, "sum are computed of numbers"),
        ({"measure": {**BYTES, "type": "words"}, "metrics": ["sum"]}, "/0/measure/type: 'words'"),
        ({"timezone": "Europe/Berlim"}, "/0/timezone: time zone 'Europe/Berlim' is not known"),
        ({"topic": "__consumer_offsets"}, "begins with _"),
        ({"period": "60"}, "'60' is no period"),
        ({"period": 60}, '60: a text is expected: put it in quotes, e.g. "60"'),
        ({"period": "0s"}, 'a period lasts from "1s" to "31d"'),
        ({"period": "32d"}, 'a period lasts from "1s" to "31d"'),
        ({"topic": "../x"}, "/0/topic"),
        ({"dimensions": [{"name": "a", "extract": BYTES}] * 2}, "two dimensions are called 'a'"),
        ({"dimensions": [{"name": f"d{n}", "extract": BYTES} for n in range(9)]}, "at most 8 items"),
        ({"colour": "red"}, "/0/colour: there is no such key here"),
    ],
)
def test_a_task_that_cannot_work_is_refused(fields: dict[str, Any], says: str) -> None:
    assert says in refused(**fields)


@pytest.mark.parametrize(
    ("text", "ms"), [("1s", 1000), ("5m", 300_000), ("1h", 3_600_000), ("31d", 2_678_400_000)]
)
def test_periods(text: str, ms: int) -> None:
    assert spec(period=text).span.ms == ms


def test_the_values_of_lists_take_the_place_of_their_names() -> None:
    named = {"mode": "black", "set": "offices"}
    dimension = {"name": "d", "extract": BYTES, "filter": named}
    task = spec(where=[{"extract": BYTES, "filter": {"mode": "white", "set": "eu"}}], dimensions=[dimension])
    assert task.sets == {"eu", "offices"}
    found = task.with_sets({"eu": ("a",), "offices": ("b", "c")})
    assert found.sets == frozenset()
    assert (found.where[0].filter.values, found.where[0].filter.mode) == (("a",), "white")
    assert found.dimensions[0].filter == Filter(mode="black", values=("b", "c"))
    assert spec().with_sets({}) == spec()


def test_a_measure_may_be_a_text() -> None:
    task = spec(measure={"field": "agent", "regex": "^[^/]*", "type": "text"}, metrics=["missing"])
    assert task.measure is not None
    assert task.measure.type == "text"
    assert task.measure.extract == Extract(field="agent", regex="^[^/]*")


def test_a_day_of_a_time_zone() -> None:
    assert spec(period="1d", timezone="Europe/Berlin").span == Period(86400, "Europe/Berlin")
    assert spec().span == Period(60)


def test_a_document_says_nothing_superfluous() -> None:
    task = spec(timezone="UTC", where=[])
    assert list(task.document()) == ["name", "topic", "period", "dimensions", "metrics"]
    assert parse_documents([task.document()]) == [task]


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(TasksRefused) as error:
        parse_documents([{"name": "A"}, 5, {"name": "b", "topic": "t", "period": "1", "metrics": ["count"]}])
    pointers = [p.pointer for p in error.value.problems]
    assert pointers == ["/0/name", "/0/topic", "/0/period", "/0/metrics", "/1", "/2/period"]
