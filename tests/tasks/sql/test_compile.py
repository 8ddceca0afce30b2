"""SELECTs and the specs that they compile to: `statement`, `values`, `conditions` and `metrics` together."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.tasks import Period, TasksRefused, TopicSpec, parse_documents, parse_tasks
from sluice.tasks.sql import SqlRefused, compile_sql

BY_MINUTE = "FROM logs GROUP BY period('1m')"
SHOP = TopicSpec.model_validate(
    {"name": "shop", "format": "json", "time": {"extract": {"field": "at"}, "format": "iso8601"}}
)


def compiled(text: str, **more: Any) -> dict[str, Any]:
    spec = compile_sql("t", text, **more)
    assert spec.sql == text
    return spec.model_dump(mode="json", exclude_none=True, exclude_defaults=True, exclude={"sql", "name"})


def where(condition: str) -> list[dict[str, Any]]:
    text = f"SELECT count(*) FROM logs WHERE {condition} GROUP BY period('1m')"
    found: list[dict[str, Any]] = compiled(text)["where"]
    return found


def metrics(*asked: str) -> tuple[list[str], dict[str, Any]]:
    spec = compiled(f"SELECT {', '.join(asked)} {BY_MINUTE}")
    return spec["metrics"], spec.get("measure", {})


def test_the_example_of_the_module() -> None:
    text = """
        SELECT status, count(*), avg(bytes) -- per status
        FROM logs
        WHERE method = 'GET' AND path NOT LIKE '/static/%' /* not the pictures */
        GROUP BY status, period('60s', 'Europe/Berlin');"""
    assert compiled(text) == {
        "topic": "logs",
        "period": "60s",
        "timezone": "Europe/Berlin",
        "where": [
            {"extract": {"field": "method"}, "filter": {"mode": "white", "values": ["GET"]}},
            {"extract": {"field": "path"}, "filter": {"mode": "black", "regex": "(?s)^/static/.*$"}},
        ],
        "dimensions": [{"name": "status", "extract": {"field": "status"}}],
        "measure": {"field": "bytes"},
        "metrics": ["count", "avg"],
    }


@pytest.mark.parametrize(
    ("expression", "extract"),
    [
        ("status", {"field": "status"}),
        ('"status"', {"field": "status"}),
        ("logs.status", {"field": "status"}),
        ("(status)", {"field": "status"}),
        ("request.path", {"field": "request.path"}),
        ('"request.path"', {"field": "request.path"}),
        ("a.b.c.d.e.f", {"field": "a.b.c.d.e.f"}),
        ('request."a.b/c~d"', {"field": "/request/a.b~1c~0d"}),
        ('"/request/path"', {"field": "/request/path"}),
        ("split_part(line, ' ', 9)", {"delimiter": " ", "index": 8}),
        ("SPLIT_PART(logs.line, '|', 1)", {"delimiter": "|", "index": 0}),
        ("regexp_extract(line, '^(.)')", {"regex": "^(.)"}),
        ("regexp_extract(path, '^/([^/]*)', 1)", {"field": "path", "regex": "^/([^/]*)", "group": 1}),
        (
            "regexp_extract(split_part(line, ' ', 7), '[^?]*', 0)",
            {"delimiter": " ", "index": 6, "regex": "[^?]*", "group": 0},
        ),
    ],
)
def test_columns(expression: str, extract: dict[str, Any]) -> None:
    text = f"SELECT {expression} AS d, count(*) FROM logs GROUP BY {expression}, period('1m')"
    assert compiled(text)["dimensions"] == [{"name": "d", "extract": extract}]
    assert compiled(text.replace(f"BY {expression}", "BY d")) == compiled(text)
    assert where(f"{expression} = 'a'") == [
        {"extract": extract, "filter": {"mode": "white", "values": ["a"]}}
    ]
    assert metrics(f"sum({expression})") == (["sum"], extract)


@pytest.mark.parametrize(
    ("condition", "filter_"),
    [
        ("status = '500'", {"mode": "white", "values": ["500"]}),
        ("'500' = status", {"mode": "white", "values": ["500"]}),
        ("status = 500", {"mode": "white", "values": ["500"]}),
        ("status <> '500'", {"mode": "black", "values": ["500"]}),
        ("status != '500'", {"mode": "black", "values": ["500"]}),
        ("NOT status = '500'", {"mode": "black", "values": ["500"]}),
        ("NOT NOT (status = '500')", {"mode": "white", "values": ["500"]}),
        ("NOT status <> '500'", {"mode": "white", "values": ["500"]}),
        ("status = 'it''s'", {"mode": "white", "values": ["it's"]}),
        ("status = ''", {"mode": "white", "values": [""]}),
        ("status IN ('a', 'b', 'a', 1)", {"mode": "white", "values": ["a", "b", "1"]}),
        ("status NOT IN ('a')", {"mode": "black", "values": ["a"]}),
        ("status IN SET('eu')", {"mode": "white", "set": "eu"}),
        ("status NOT IN set('eu')", {"mode": "black", "set": "eu"}),
        ("in_set(status, 'eu')", {"mode": "white", "set": "eu"}),
        ("NOT in_set(status, 'eu')", {"mode": "black", "set": "eu"}),
        ("status RLIKE '^5'", {"mode": "white", "regex": "^5"}),
        ("status REGEXP '^5'", {"mode": "white", "regex": "^5"}),
        ("NOT status RLIKE '^5'", {"mode": "black", "regex": "^5"}),
        ("status NOT RLIKE '^5'", {"mode": "black", "regex": "^5"}),
        (r"regexp_like(status, '^\d')", {"mode": "white", "regex": r"^\d"}),
        ("status LIKE '500'", {"mode": "white", "values": ["500"]}),
        ("status LIKE '5%'", {"mode": "white", "regex": "(?s)^5.*$"}),
        ("status LIKE '_.\\%'", {"mode": "white", "regex": "(?s)^.\\.\\\\.*$"}),
        ("status NOT LIKE '5%'", {"mode": "black", "regex": "(?s)^5.*$"}),
        ("status ILIKE 'a'", {"mode": "white", "regex": "(?is)^a$"}),
        ("status IS NOT NULL", {"mode": "white", "regex": "^"}),
        ("NOT status NOT LIKE '5%'", {"mode": "white", "regex": "(?s)^5.*$"}),
        ("status NOT ILIKE 'a'", {"mode": "black", "regex": "(?is)^a$"}),
        ("NOT (status IS NULL)", {"mode": "white", "regex": "^"}),
        ("status = 'a' OR 'b' = status OR status IN ('c')", {"mode": "white", "values": ["a", "b", "c"]}),
        ("NOT (status <> 'a' AND status <> 'b')", {"mode": "white", "values": ["a", "b"]}),
    ],
)
def test_conditions(condition: str, filter_: dict[str, Any]) -> None:
    assert where(condition) == [{"extract": {"field": "status"}, "filter": filter_}]


def test_and_joins_conditions_in_order() -> None:
    found = where("a = '1' AND (b = '2' AND NOT (c = '3' OR d = '4')) AND line RLIKE 'x'")
    assert [(c["extract"].get("field"), c["filter"]["mode"]) for c in found] == [
        ("a", "white"),
        ("b", "white"),
        ("c", "black"),
        ("d", "black"),
        (None, "white"),
    ]


BYTES = {"field": "bytes"}


@pytest.mark.parametrize(
    ("asked", "names", "measure"),
    [
        (["count(*)"], ["count"], {}),
        (["COUNT(*) AS count", "SUM(bytes)"], ["count", "sum"], BYTES),
        (["sum(bytes)", "avg(bytes)", "min(bytes)", "max(bytes)"], ["sum", "avg", "min", "max"], BYTES),
        (["missing(bytes)"], ["missing"], BYTES),
        (["stddev(bytes)"], ["stddev"], BYTES),
        (["stddev_pop(bytes)"], ["stddev"], BYTES),
        (["count(DISTINCT bytes)"], ["unique"], BYTES | {"type": "text"}),
        (["unique(bytes)", "missing(bytes)"], ["unique", "missing"], BYTES | {"type": "text"}),
        (["unique(bytes)", "sum(bytes)"], ["unique", "sum"], BYTES),
        (["p50(bytes)", "p99.9(bytes)"], ["p50", "p99.9"], BYTES),
        (["percentile(bytes, 0.5)", "percentile(bytes, .999)"], ["p50", "p99.9"], BYTES),
        (["top10(bytes)"], ["top10"], BYTES | {"type": "text"}),
        (["geometric_mean(bytes)"], ["geometric_mean"], BYTES),  # a metric of include/metrics
        (["topk(bytes, 3)"], ["top3"], BYTES | {"type": "text"}),
    ],
)
def test_metrics(asked: list[str], names: list[str], measure: dict[str, Any]) -> None:
    assert metrics(*asked) == (names, measure)


def test_dimensions_come_in_the_order_of_select() -> None:
    text = "SELECT b, count(*), a AS x FROM logs GROUP BY x, period('1m'), b"
    assert [d["name"] for d in compiled(text)["dimensions"]] == ["b", "x"]


def test_a_period_may_be_selected_too() -> None:
    text = "SELECT period('1d', 'UTC'), count(*) FROM logs GROUP BY period('1d', 'UTC')"
    assert compiled(text) == {"topic": "logs", "period": "1d", "metrics": ["count"]}


def test_the_time_zone_beside_the_select() -> None:
    assert compiled("SELECT count(*) " + BY_MINUTE, timezone="Asia/Kathmandu")["timezone"] == "Asia/Kathmandu"
    both = "SELECT count(*) FROM logs GROUP BY period('1m', 'Asia/Kathmandu')"
    assert compiled(both, timezone="Asia/Kathmandu")["timezone"] == "Asia/Kathmandu"
    with pytest.raises(SqlRefused, match="the task's timezone is 'Europe/Berlin': say it once"):
        compile_sql("t", both, "Europe/Berlin")
    with pytest.raises(SqlRefused, match="the task's timezone is 'UTC': say it once"):
        compile_sql("t", both, "UTC")


def test_the_layout_of_a_select_does_not_change_what_it_counts() -> None:
    plain = compile_sql("t", "SELECT status, count(*) FROM logs GROUP BY status, period('1m')")
    noted = compile_sql("t", "-- ann's\nselect status, count(*)\nFROM logs GROUP BY period('1m'), status")
    written = plain.model_copy(update={"sql": None})
    assert plain.counts_as(noted)
    assert plain.counts_as(written)
    assert not plain.counts_as(
        compile_sql("t", "SELECT status, count(*) FROM logs GROUP BY status, period('1h')")
    )


def test_a_topic_with_any_name() -> None:
    text = "SELECT count(*) FROM \"web.logs-2\" GROUP BY period('1m')"
    assert compiled(text)["topic"] == "web.logs-2"


def test_fields_are_checked_against_the_topic_when_it_is_known() -> None:
    text = "SELECT count(*) FROM logs WHERE colour = 'red' GROUP BY period('1m')"
    with pytest.raises(SqlRefused, match=r"^colour \(line 1, column 33\): .* has no field 'colour': use"):
        compile_sql("t", text, topic=TopicSpec())
    assert compile_sql("t", text.replace("logs", "shop"), topic=SHOP).where
    assert compile_sql("t", text, topic=SHOP).where  # it says nothing about another topic


def test_in_a_file() -> None:
    (task,) = parse_tasks(
        """
- name: errors
  timezone: Europe/Berlin
  sql: |
    SELECT status, count(*) FROM logs
    WHERE status RLIKE '^5' GROUP BY status, period('1d')
"""
    )
    assert (task.name, task.timezone) == ("errors", "Europe/Berlin")
    assert (task.period, task.span) == ("1d", Period(86400, "Europe/Berlin"))
    assert list(task.document()) == ["name", "timezone", "sql"]
    assert parse_documents([task.document()]) == [task]
    stored = task.model_dump(mode="json", exclude_none=True)
    assert type(task).model_validate(stored) == task


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"topic": "logs"}, "/0/topic: the SELECT of this task says it"),
        ({"metrics": ["count"], "period": "1m"}, "/0/period: the SELECT"),
        ({"colour": "red"}, "/0/colour: there is no such key here"),
        ({"timezone": "Mars"}, "/0/timezone: time zone 'Mars' is not known"),
        ({"name": "A"}, "/0/name: 'A' does not match"),
        ({"sql": 5}, "/0/sql: 5: a text is expected"),
        ({"sql": "DROP TABLE tasks"}, r"/0/sql: DROP \(line 1, column 1\): a task is a SELECT"),
        ({"sql": "x" * 16_385}, "/0/sql: .*at most 16384 characters"),
    ],
)
def test_in_a_file_an_error_is_told_with_its_place(more: dict[str, Any], says: str) -> None:
    document = {"name": "t", "sql": "SELECT count(*) " + BY_MINUTE} | more
    with pytest.raises(TasksRefused, match=says):
        parse_documents([document])
