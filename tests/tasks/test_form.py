"""A task is the same in a form as in a file, or the form says that it cannot hold it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.tasks import TasksRefused, parse_documents, parse_tasks
from sluice.tasks.form import fits, from_form, to_form

EXAMPLES = Path(__file__).parents[2] / "include/examples/tasks.yaml"
texts = st.text(st.sampled_from("aä1 \\t\t\n\r\"',;:{}[]#-"), min_size=1, max_size=6)
extracts = st.fixed_dictionaries(
    {},
    optional={
        "field": texts,
        "delimiter": texts,
        "index": st.integers(0, 1023),
        "regex": texts,
        "group": st.integers(0, 9),
    },
)
filters = st.fixed_dictionaries(
    {"mode": st.sampled_from(["white", "black"])},
    optional={"values": st.lists(texts, min_size=1, max_size=3), "regex": texts, "set": texts},
)
documents = st.fixed_dictionaries(
    {"name": texts, "topic": texts, "period": texts, "metrics": st.lists(texts, min_size=1, max_size=3)},
    optional={
        "timezone": texts,
        "where": st.lists(st.fixed_dictionaries({"extract": extracts, "filter": filters}), max_size=3),
        "dimensions": st.lists(
            st.fixed_dictionaries({"name": texts, "extract": extracts}, optional={"filter": filters}),
            max_size=3,
        ),
        "grouping": st.sampled_from(["auto", {"strategy": "planned", "half_life": 2.5}]),
    },
)


@given(documents)
def test_a_document_that_fits_survives_the_form(document: dict[str, Any]) -> None:
    if fits(document):
        assert from_form(to_form(document).items()) == document


@given(documents)
def test_a_delimiter_or_a_pattern_of_any_characters_fits(document: dict[str, Any]) -> None:
    document = {key: document[key] for key in document.keys() & {"name", "dimensions"}}
    for row in document.get("dimensions", ()):
        row.pop("filter", None)
    rows = document.get("dimensions", [])
    assert from_form(to_form(document).items()).get("dimensions", []) == rows


def test_every_example_that_is_no_sql_fits() -> None:
    for spec in parse_tasks(EXAMPLES.read_text()):
        if spec.sql is not None:
            continue
        assert fits(spec.document()), spec.name
        (again,) = parse_documents([from_form(to_form(spec.document()).items())])
        assert again == spec


@pytest.mark.parametrize(
    "filter_", [{"mode": "white", "values": ["a\nb"]}, {"mode": "white", "values": ["", "a"]}]
)
def test_a_value_that_no_line_of_a_form_can_hold_does_not_fit(filter_: dict[str, Any]) -> None:
    assert not fits({"dimensions": [{"name": "a", "extract": {"field": "status"}, "filter": filter_}]})
    assert not fits({"name": "a", "sql": "SELECT count(*) FROM logs GROUP BY period('1m')"})


def test_what_is_wrong_is_told_at_the_field_with_its_value_kept() -> None:
    document = from_form(
        [
            ("name", "Hits"),
            ("topic", "logs"),
            ("period", "1m"),
            ("dimensions/4/name", "status"),
            ("dimensions/4/extract/delimiter", "\\t"),
            ("dimensions/4/extract/index", "eight"),
            ("dimensions/7/name", "empty"),
            ("metrics", "count"),
            ("metrics", "p95, sum"),
            ("measure/type", "number"),
            ("do", "look"),
        ]
    )
    assert document["dimensions"][0]["extract"] == {"delimiter": "\t", "index": "eight"}
    assert (document["metrics"], "measure" in document) == (["count", "p95", "sum"], False)
    with pytest.raises(TasksRefused) as refused:
        parse_documents([document])
    assert {problem.pointer for problem in refused.value.problems} == {
        "/0/name",
        "/0/dimensions/0/extract/index",
        "/0/dimensions/1/extract",
    }


def test_an_empty_row_stays() -> None:
    document = {"dimensions": [{"extract": {}}, {"extract": {}}], "where": [{"extract": {}, "filter": {}}]}
    assert fits(document)


def test_values_come_a_line_each_from_any_browser() -> None:
    given = [("dimensions/0/filter/values", "304\r\n 301 \r\n\r\n"), ("dimensions/0/filter/mode", "white")]
    assert from_form(given)["dimensions"][0]["filter"] == {"mode": "white", "values": ["304", " 301 "]}
