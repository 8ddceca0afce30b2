"""What topics can look like, and which tasks fit them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from sluice.tasks import TimeSpec, TopicSpec, check_task, explain, parse_documents
from sluice.tasks.topic_spec import COMBINED_FIELDS, json_path
from tests.engine.samples import spec

AT = {"extract": {"field": "at"}, "format": "iso8601"}
JSON = {"name": "shop", "format": "json", "time": AT}
CELLS = {"name": "cells", "format": "delimited", "delimiter": ";", "columns": ["at", "status"], "time": AT}


def topic(document: dict[str, Any]) -> TopicSpec:
    return TopicSpec.model_validate(document)


def refused(document: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as error:
        topic(document)
    return "\n".join(str(problem) for problem in explain(error.value))


def test_an_undescribed_topic_is_an_access_log() -> None:
    assert (TopicSpec().name, TopicSpec().format, TopicSpec().time) == ("logs", "combined", None)


@pytest.mark.parametrize("document", [JSON, CELLS, {"name": "logs"}])
def test_a_topic_survives_its_json(document: dict[str, Any]) -> None:
    found = topic(document)
    assert topic(found.model_dump(mode="json", exclude_none=True)) == found
    assert hash(found) == hash(topic(document))


def test_columns_have_places() -> None:
    assert topic(CELLS).index("status") == 1


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"name": "_logs"}, "/name: topic '_logs' begins with _"),
        ({"name": "../x"}, "/name: '../x' does not match"),
        ({"format": "xml"}, "/format: 'xml'"),
        ({"format": "combined"}, "belong to format: delimited; this topic is combined"),
        ({"delimiter": None}, "needs its delimiter and the names of its columns"),
        ({"columns": []}, "needs its delimiter and the names of its columns"),
        ({"columns": ["at", "line"]}, "a column called 'line', as SQL calls the whole line"),
        ({"columns": ["at", "at"]}, "two columns are called 'at'"),
        ({"columns": ["at", "a b"]}, "/columns/1: 'a b' does not match"),
        ({"columns": "at"}, "/columns: 'at': a list is expected"),
        ({"time": None}, "a delimited topic without time"),
        (
            {"time": {"extract": {"field": "when"}, "format": "iso8601"}},
            "has no field 'when': use one of at",
        ),
        ({"time": {"format": "iso8601"}}, "/time: format 'iso8601' without an extract"),
        ({"time": AT | {"zone": "Mars"}}, "/time/zone: time zone 'Mars' is not known"),
        ({"time": AT | {"format": "epoch_s", "zone": "UTC"}}, "says its own offset: drop the zone"),
        ({"time": AT | {"format": "iso"}}, "/time/format: 'iso' is no time format"),
        ({"time": AT | {"format": "%Y-%m-%d"}}, "does not tell an instant"),
        ({"time": AT | {"format": "%Y-%m-%b %d %H:%M:%S"}}, "does not tell an instant"),
        ({"time": AT | {"format": "%Y-%m-%d %H:%M:%S %q"}}, "%q is not known here"),
        ({"time": AT | {"format": "%Y-%m-%d %H:%M:%S %"}}, "% is not known here"),
        ({"time": AT | {"format": "%Y-%m-%d %H:%M:%S %d"}}, "%d stands there twice"),
        ({"time": AT | {"format": "%Y-%m-%dT%H:%M:%S%z", "zone": "UTC"}}, "says its own offset"),
        ({"colour": "red"}, "/colour: there is no such key here"),
    ],
)
def test_a_topic_that_cannot_be_read_is_refused(changes: dict[str, Any], says: str) -> None:
    assert says in refused(CELLS | changes)


@pytest.mark.parametrize(
    ("format_", "naive"),
    [("apache", False), ("iso8601", True), ("epoch_ms", False), ("%d.%m.%Y %H:%M:%S", True)],
)
def test_stamps_without_an_offset_are_in_the_zone(format_: str, naive: bool) -> None:
    time = TimeSpec.model_validate(AT | {"format": format_})
    assert (time.naive, time.assumed_zone) == (naive, "UTC")
    if naive:
        assert (
            TimeSpec.model_validate(AT | {"format": format_, "zone": "Asia/Kathmandu"}).assumed_zone != "UTC"
        )


@pytest.mark.parametrize(
    ("field", "keys"),
    [
        ("a", ("a",)),
        ("a.b.0", ("a", "b", "0")),
        ("/a/b", ("a", "b")),
        ("/a.b/c~1d~0e/", ("a.b", "c/d~e", "")),
        ("/", ("",)),
    ],
)
def test_paths_of_json(field: str, keys: tuple[str, ...]) -> None:
    assert json_path(field) == keys


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("a..b", "an empty part"),
        (".a", "an empty part"),
        ("/a~b", "~0 for ~"),
        ("a" + ".b" * 16, "17 levels deep"),
        ("1.a.2.3.4", "4 keys that are numbers"),
        ("a\\b", "a backslash"),
        ('/a/it\'s "it"', "both kinds of quotes"),
    ],
)
def test_paths_that_lead_nowhere_are_refused(field: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        json_path(field)
    assert says in str(check_task(by_field(field), topic(JSON))[0])


def by_field(field: str, **more: Any) -> Any:
    return spec(dimensions=[{"name": "d", "extract": {"field": field}}], **more)


@pytest.mark.parametrize("field", COMBINED_FIELDS)
def test_every_field_of_an_access_log_has_a_name(field: str) -> None:
    assert check_task(by_field(field), TopicSpec()) == []


def test_an_unknown_field_is_told_with_its_place() -> None:
    unknown = {"extract": {"field": "colour"}, "filter": {"mode": "white", "values": ["red"]}}
    task = by_field("colour", where=[unknown], measure={"field": "colour"}, metrics=["sum"])
    found = {problem.pointer: problem.message for problem in check_task(task, TopicSpec())}
    assert list(found) == ["/where/0/extract/field", "/dimensions/0/extract/field", "/measure/field"]
    assert "topic logs (combined) has no field 'colour': use one of client, ident" in found["/measure/field"]
    assert check_task(task, topic(JSON)) == []
    assert "use one of at, status" in str(check_task(task, topic(CELLS))[0])


def test_an_unknown_field_of_a_select_is_told_once() -> None:
    sql = "SELECT colour, sum(colour) FROM logs GROUP BY colour, period('1m')"
    (task,) = parse_documents([{"name": "t", "sql": sql}])
    (problem,) = check_task(task, TopicSpec())
    assert (problem.pointer, "has no field 'colour'" in problem.message) == ("/sql", True)
