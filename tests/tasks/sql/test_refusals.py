"""A SELECT that does not compile is refused with the word, its place and the reason."""

from __future__ import annotations

import pytest

from sluice.runtime.settings import ROOT
from sluice.tasks.sql import SqlRefused, compile_sql
from sluice.tasks.sql.reasons import REASONS

BY = " GROUP BY period('1m')"
ONE = "SELECT count(*) FROM logs"


def refused(text: str) -> SqlRefused:
    with pytest.raises(SqlRefused) as error:
        compile_sql("t", text)
    return error.value


#: The statement, with «» around the word that is refused, and a part of the reason.
REFUSED = [
    (ONE + BY + " «HAVING» count(*) > 1", "none can be left out"),
    (ONE + BY + " «LIMIT» 10", r"ask topk\(x, 10\)"),
    (ONE + BY + " «OFFSET» 10", "none can be left out"),
    (ONE + BY + " «FETCH» FIRST 3 ROWS ONLY", "none can be left out"),
    (ONE + BY + " «ORDER BY» 1", "no order"),
    ("SELECT «DISTINCT» status, count(*) FROM logs" + BY, "GROUP BY already"),
    ("SELECT sum(«DISTINCT» bytes) FROM logs" + BY, "GROUP BY already"),
    ("SELECT count(«DISTINCT» a, b) FROM logs" + BY, "of one column"),
    ("SELECT count(*) «OVER» (PARTITION BY a) FROM logs" + BY, "a window looks at other rows"),
    ("SELECT sum(bytes) OVER w FROM logs" + BY + " «WINDOW» w AS (ORDER BY a)", "a window looks"),
    (ONE + BY + " «QUALIFY» count(*) > 1", "use WHERE"),
    ("SELECT count(*) FROM logs «JOIN» b ON a = b" + BY, "one topic"),
    ("SELECT count(*) FROM logs LEFT «JOIN» b USING (x)" + BY, "one topic"),
    ("SELECT count(*) FROM logs NATURAL «JOIN» b" + BY, "one topic"),
    ("SELECT count(*) FROM logs, «b»" + BY, "one topic"),
    ("SELECT count(*) FROM («SELECT» 1)" + BY, "a query within the query"),
    ("SELECT («SELECT» 1), count(*) FROM logs" + BY, "a query within the query"),
    (ONE + " WHERE a IN («SELECT» 1)" + BY, "a query within the query"),
    (ONE + " WHERE a = («SELECT» 1)" + BY, "a query within the query"),
    (ONE + " WHERE «EXISTS» (SELECT 1)" + BY, "a query within the query"),
    ("«WITH» a AS (SELECT 1) " + ONE + BY, "write the expressions out"),
    (ONE + " «UNION» ALL " + ONE + BY, "a task of each SELECT"),
    (ONE + " «INTERSECT» " + ONE + BY, "a task of each SELECT"),
    (ONE + " «EXCEPT» " + ONE + BY, "a task of each SELECT"),
    (ONE + "; «DROP» TABLE tasks", "a task is one SELECT"),
    (ONE + BY + "; «" + ONE[:6] + "»" + ONE[6:], "a task is one SELECT"),
    ("«DROP» TABLE tasks", "nothing is ever executed"),
    ("«COPY» tasks TO PROGRAM 'sh'", "nothing is ever executed"),
    ("«VALUES» (1)", "nothing is ever executed"),
    ("«EXPLAIN» " + ONE, "nothing is ever executed"),
    ("SELECT count(*) FROM «other.logs»" + BY, 'FROM "other.logs"'),
    ("SELECT count(*) FROM «read_csv»('/etc/passwd')" + BY, "a topic is named here"),
    ("SELECT count(*) FROM '«/etc/passwd»'" + BY, "does not match"),
    ("SELECT count(*) FROM «__consumer_offsets»" + BY, "begins with _"),
    ("SELECT count(*) FROM logs AS «l»" + BY, "no other name"),
    ("SELECT count(*) FROM logs «TABLESAMPLE» (10)" + BY, "every line is counted"),
    ("SELECT count(*) FROM logs «LATERAL» VIEW explode(x) t" + BY, "one topic"),
    ("SELECT count(*) «INTO» x FROM logs" + BY, "result store"),
    (ONE + BY + " «FOR» UPDATE", "nothing can be locked"),
    ("SELECT «/*+» BROADCAST(a) */ count(*) FROM logs" + BY, "no hints"),
    ("SELECT count(*) «FILTER» (WHERE a = 'b') FROM logs" + BY, "use WHERE"),
    ("SELECT a, count(*) FROM logs GROUP BY «ROLLUP»(a), period('1m')", "a task of each grouping"),
    ("SELECT a, count(*) FROM logs GROUP BY «CUBE»(a), period('1m')", "a task of each grouping"),
    ("SELECT a, count(*) FROM logs GROUP BY «GROUPING SETS» ((a)), period('1m')", "a task of each grouping"),
    ("SELECT a, count(*) FROM logs GROUP BY «ALL»", "name the dimensions"),
    (ONE + BY + " WITH «TOTALS»", "a task of each grouping"),
    # what is selected
    ("SELECT «*» FROM logs" + BY, "name the dimensions"),
    ("«SELECT» a FROM logs GROUP BY a, period('1m')", "no metric"),
    ("SELECT «count»(a) FROM logs" + BY, r"ask count\(\*\) for the lines"),
    ("SELECT «count»() FROM logs" + BY, r"ask count\(\*\) for the lines"),
    ("SELECT count(*) AS «n» FROM logs" + BY, "results are called 'count'"),
    ("SELECT «lower»(a), count(*) FROM logs" + BY, "metric 'lower' is not known"),
    ("SELECT «pg_sleep»(10) FROM logs" + BY, "metric 'pg_sleep' is not known"),
    ("SELECT «sum»(a, b) FROM logs" + BY, "it takes one column"),
    ("SELECT sum(a), avg(«b») FROM logs" + BY, "a task has one measure"),
    ("SELECT sum(«1») FROM logs" + BY, "a column is expected"),
    ("SELECT sum(«CAST»(a AS BIGINT)) FROM logs" + BY, "drop the cast"),
    ("SELECT sum(«a»::BIGINT) FROM logs" + BY, "drop the cast"),
    ("SELECT sum(a «+» b) FROM logs" + BY, "as it stands"),
    ("SELECT sum(a «/» 1024) FROM logs" + BY, "as it stands"),
    ("SELECT sum(«upper»(a)) FROM logs" + BY, "this function is not known"),
    ("SELECT a «||» b AS c, count(*) FROM logs GROUP BY c, period('1m')", "a dimension of each part"),
    ("SELECT «CASE» WHEN a = 'b' THEN 1 END, count(*) FROM logs" + BY, "a task of each case"),
    ("SELECT «line», count(*) FROM logs GROUP BY line, period('1m')", "a series of its own"),
    ("SELECT «split_part»(line, ' ', 1), count(*) FROM logs" + BY, "a dimension needs a name"),
    ("SELECT split_part(line, ' ', «0») AS a, count(*) FROM logs GROUP BY a, period('1m')", "from 1"),
    ("SELECT split_part(«path», ' ', 1) AS a, count(*) FROM logs GROUP BY a, period('1m')", "the whole line"),
    ("SELECT «split_part»(line) AS a, count(*) FROM logs GROUP BY a, period('1m')", "a number, from 1"),
    ("SELECT «regexp_extract»(regexp_extract(a, 'b'), 'c') AS d, count(*) FROM logs" + BY, "one pattern"),
    ("SELECT regexp_extract(a, 'b', «2.5») AS d, count(*) FROM logs" + BY, "a whole number"),
    (
        "SELECT «regexp_extract»(a, 'b', 2) AS d, count(*) FROM logs" + BY,
        "a pattern with 0 groups",
    ),
    ("SELECT «Status», count(*) FROM logs GROUP BY Status, period('1m')", "add AS status$"),
    ("SELECT «a», count(*) FROM logs" + BY, "add it to GROUP BY"),
    ("SELECT count(*) FROM logs GROUP BY «a», period('1m')", "add it to SELECT"),
    ("SELECT count(*) FROM logs GROUP BY «count»(*), period('1m')", "drop it from GROUP BY"),
    ("SELECT a, count(*) FROM logs GROUP BY «1», period('1m')", "name the dimension"),
    ("SELECT percentile(a, «95») FROM logs" + BY, "between 0 and 1"),
    ("SELECT percentile(a, «1e») FROM logs" + BY, "without an exponent"),
    ("SELECT percentile(a, «1e1000000») FROM logs" + BY, "without an exponent"),
    ("SELECT percentile(a, «0.999999999999999999999») FROM logs" + BY, "at most 20 digits"),
    ("SELECT «AS» STRUCT count(*) FROM logs" + BY, "a column a metric"),
    ("SELECT «percentile»(a) FROM logs" + BY, r"percentile\(bytes, 0.95\)"),
    # the period
    ("«SELECT» count(*)", "no FROM"),
    ("«SELECT» count(*) FROM logs", "no GROUP BY"),
    ("SELECT a, count(*) FROM logs «GROUP BY» a", "add one period"),
    ("SELECT count(*) FROM logs GROUP BY period('1m'), «period»('1h')", "one period"),
    ("SELECT «period»('1h'), count(*) FROM logs" + BY, "make them equal"),
    ("SELECT period('1m') AS «minute», count(*) FROM logs" + BY, "the period keeps its name"),
    ("SELECT «userAgent», count(*) FROM shop GROUP BY userAgent, period('1m')", "add AS user_agent$"),
    ("SELECT «x».HTTPStatus, count(*) FROM shop GROUP BY x.HTTPStatus, period('1m')", "add AS httpstatus$"),
    ('SELECT «"2xx"», count(*) FROM shop GROUP BY "2xx", period(\'1m\')', "add AS field_2xx$"),
    ("SELECT count(*) FROM logs GROUP BY «period»()", "a length and perhaps a time zone"),
    ("SELECT count(*) FROM logs GROUP BY period(«60»)", "in single quotes"),
    ("SELECT count(*) FROM logs GROUP BY period('«1y»')", "is no period"),
    ("SELECT count(*) FROM logs GROUP BY period('1h', '«Mars»')", "is not known"),
    # conditions
    (ONE + " WHERE bytes «>» 100" + BY, "compared as texts"),
    (ONE + " WHERE bytes «<=» 100" + BY, "compared as texts"),
    (ONE + " WHERE bytes «BETWEEN» 1 AND 2" + BY, "compared as texts"),
    (ONE + " WHERE a «IS» NULL" + BY, "only IS NOT NULL"),
    (ONE + " WHERE a = '1' «OR» b = '2'" + BY, "about one column"),
    (ONE + " WHERE a = '1' «OR» a LIKE '2%'" + BY, "OR joins values"),
    (ONE + " WHERE a = '1' «OR» a IN SET('b')" + BY, "OR joins values"),
    (ONE + " WHERE NOT (a = '1' «AND» b = '2')" + BY, "about one column"),
    (ONE + " WHERE a = '1' «OR» (a IN ('2', '3') AND a IN ('3', '4'))" + BY, "that must both hold"),
    (ONE + " WHERE a = '2' AND a = '3' «OR» a = '1'" + BY, "that must both hold"),
    (ONE + " WHERE NOT (a <> '1' «AND» (a <> '2' OR a <> '3'))" + BY, "that must both hold"),
    (ONE + " WHERE a = «b»" + BY, "double quotes name a column"),
    (ONE + ' WHERE a = «"b"»' + BY, "double quotes name a column"),
    (ONE + " WHERE a = «1.5»" + BY, "in single quotes"),
    (ONE + " WHERE «1» = 1" + BY, "a column is expected"),
    (ONE + " WHERE «TRUE»" + BY, "this is no condition"),
    (ONE + " WHERE «a»" + BY, "this is no condition"),
    (ONE + " WHERE «sleep»(10)" + BY, "this is no condition"),
    (ONE + " WHERE a LIKE 'x' «ESCAPE» '!'" + BY, "use RLIKE"),
    (ONE + " WHERE a «SIMILAR TO» 'x'" + BY, "use RLIKE"),
    (ONE + " WHERE a RLIKE «'(?=x)'»" + BY, "look-ahead"),
    (ONE + " WHERE a = «ANY»('x')" + BY, r"use IN \('a', 'b'\)"),
    (ONE + " WHERE a «IN» ()" + BY, "the list is empty"),
    (ONE + " WHERE a IN «SET»()" + BY, "the name of a list"),
    (ONE + " WHERE «a» IN SET('../x')" + BY, "does not match"),
    (ONE + " WHERE «@a» = 'x'" + BY, "does not compile"),
    (ONE + " WHERE a = 'b' «~»" + BY, "no SQL that is understood"),
    ("«selec» count(*)", "a task is a SELECT"),
]


@pytest.mark.parametrize(("marked", "reason"), REFUSED)
def test_it_is_refused_with_its_word_and_place(marked: str, reason: str) -> None:
    before, _, rest = marked.partition("«")
    word, _, after = rest.partition("»")
    error = refused(before + word + after)
    assert error.word.upper() == word.upper()
    assert error.position == len(before)
    with pytest.raises(SqlRefused, match=reason):
        raise error


def test_the_place_is_told_by_line_and_column() -> None:
    error = refused("SELECT count(*)\nFROM logs\n  LIMIT 3")
    assert (error.line, error.column) == (3, 3)
    assert str(error).startswith("LIMIT (line 3, column 3): ")


@pytest.mark.parametrize("text", ["", " ", ";", ";;", "-- nothing", "/* nothing */"])
def test_nothing_is_no_task(text: str) -> None:
    assert "there is no SELECT in it" in str(refused(text))


@pytest.mark.parametrize("number", [9, 17])
def test_a_spec_too_large_is_refused(number: int) -> None:
    """A spec that the task's own rules refuse is refused here too."""
    names = [f"d{n}" for n in range(number)]
    conditions = " AND ".join(f"{name} = 'x'" for name in names)
    some = ", ".join(names)
    text = f"SELECT {some}, count(*) FROM logs WHERE {conditions} GROUP BY {some}, period('1m')"
    assert "at most" in str(refused(text))


def test_every_reason_says_what_to_do() -> None:
    for word, reason in REASONS.values():
        assert ":" in reason or "use " in reason, word


def test_the_docs_name_every_word() -> None:
    text = (ROOT / "docs" / "tasks.md").read_text()
    for word, _ in REASONS.values():
        assert f"`{word}`" in text or f"`{word.replace('|', chr(92) + '|')}`" in text, word
