from __future__ import annotations

import math
import re
import secrets
from collections.abc import Iterator
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.runtime.settings import Settings
from sluice.storage.hdfs import HdfsStore
from sluice.storage.hive import LATER_COLUMNS, SQL, Hive, SqlFailed, SqlRows, SqlUnavailable, literal

SPECIAL = set("'\"\\$`{};%\n\r\t\0")


@given(st.text())
def test_no_text_breaks_out_of_its_literal(text: str) -> None:
    made = literal(text)
    assert made[0] == made[-1] == "'"
    inside = made[1:-1]
    assert not (set(inside) - {"\\"}) & SPECIAL
    assert inside.isascii()
    assert inside.replace("\\u", "").count("\\") == 0


def test_other_values() -> None:
    assert literal(None) == "NULL"
    assert literal(True) == "TRUE"
    assert literal(-3) == "-3"
    assert literal(date(2015, 5, 17)) == "DATE '2015-05-17'"
    noon = datetime(2015, 5, 17, 12, tzinfo=UTC)
    assert literal(noon) == "TIMESTAMP '2015-05-17 12:00:00.000000'"
    assert literal(math.pi) == f"CAST('{math.pi!r}' AS DOUBLE)"


@pytest.fixture
def hive(stack: Settings) -> Iterator[Hive]:
    with Hive(stack) as store:
        store.ensure_tables()
        yield store


@pytest.mark.stack
@pytest.mark.parametrize(
    "text",
    [
        "a'b\\c\"",
        "${env:HOME} ${spark.master}",
        "%s %(x)s",
        "\\u0041",
        "\n\r\t\0",
        "日本 😀",
        "; DROP TABLE logs --",
    ],
)
def test_text_comes_back_as_it_went(hive: Hive, text: str) -> None:
    assert hive.query("SELECT %(text)s", {"text": text}).scalar() == text


@pytest.mark.stack
def test_types_come_back(hive: Hive) -> None:
    noon = datetime(2015, 5, 17, 12, 30, 15, 250_000, tzinfo=UTC)
    found = hive.query(
        "SELECT %(none)s, %(t)s AS t, %(f)s, 7 %% 4, map('a', 1.5D)", {"none": None, "t": noon, "f": 0.1}
    )
    assert found.columns[1] == "t"
    assert found.rows == [(None, noon.replace(tzinfo=None), 0.1, 3, '{"a":1.5}')]


@pytest.mark.stack
def test_a_refused_statement_says_why_without_a_stack_trace(hive: Hive) -> None:
    with pytest.raises(SqlFailed, match="nowhere") as failure:
        hive.query("SELECT * FROM nowhere")
    assert "org.apache" not in str(failure.value)
    assert hive.query("SELECT 1").scalar() == 1


@pytest.mark.stack
def test_a_session_that_broke_is_opened_again(hive: Hive) -> None:
    hive.query("SELECT 1")
    hive._connection._transport.close()
    assert hive.query("SELECT 2").scalar() == 2


def test_an_endpoint_that_is_away_is_named() -> None:
    away = Settings(instance="test", hive={"host": "127.0.0.1", "port": 9})
    with pytest.raises(SqlUnavailable, match=r"127\.0\.0\.1:9"):
        Hive(away).query("SELECT 1")


class OlderTables(Hive):
    """An endpoint whose tables are older than some of their columns."""

    def __init__(self, *lacking: str, rival: bool = False) -> None:
        super().__init__(Settings(instance="test"))
        self.lacking = set(lacking)
        self.rival = rival  # another process adds them at the same moment
        self.altered: list[str] = []
        self.properties: list[tuple[str, str]] = [("sluice.catalogue", "0123456789abcdef")]

    def query(self, sql: str, params: object = None) -> SqlRows:
        if sql.startswith("SHOW COLUMNS"):
            table = sql.rpartition(".")[2]
            names = {"task", "series", *LATER_COLUMNS[table]} - self.lacking
            return SqlRows(["col_name"], [(name,) for name in names])
        if sql.startswith("SHOW TBLPROPERTIES sluice.logs"):
            return SqlRows(["key", "value"], self.properties)
        if set_ := re.fullmatch(r"ALTER TABLE sluice\.logs SET TBLPROPERTIES \('(.+)' = '(.+)'\)", sql):
            self.properties.append((set_[1], set_[2]))
            return SqlRows([], [])
        if "VIEW sluice.raw AS" in sql:
            assert "forged" not in self.lacking  # or the endpoint would refuse the view
        if sql.startswith("ALTER TABLE"):
            self.altered.append(sql)
            self.lacking.clear()
            if self.rival:
                raise SqlFailed(sql, "column `texts` already exists")
        return SqlRows([], [])


def test_an_older_table_gets_the_columns_it_lacks_once() -> None:
    hive = OlderTables("texts", "errors")
    hive.ensure_tables()
    hive.ensure_tables()
    assert hive.altered == [
        "ALTER TABLE sluice.task_results ADD COLUMNS (texts MAP<STRING, STRING>, errors MAP<STRING, DOUBLE>)"
    ]


def test_a_column_is_added_before_the_view_that_shows_it() -> None:
    hive = OlderTables("forged")
    hive.ensure_tables()
    assert hive.altered == ["ALTER TABLE sluice.raw_files ADD COLUMNS (forged BOOLEAN)"]


def test_two_processes_that_add_the_same_columns_at_once_do_not_fail() -> None:
    OlderTables("errors", rival=True).ensure_tables()


def test_a_catalogue_gets_a_mark_of_its_own_once() -> None:
    marks = set()
    for _ in range(2):
        hive = OlderTables()
        hive.properties = [("comment", "lines")]
        hive.ensure_tables()
        hive.ensure_tables()
        (_, (name, mark)) = hive.properties
        assert (name, len(mark)) == ("sluice.catalogue", 16)
        marks.add(mark)
    assert len(marks) == 2  # no other instance's is the same


def test_the_scripts_make_the_columns_that_older_tables_are_given() -> None:
    for table, columns in LATER_COLUMNS.items():
        (script,) = SQL.glob(f"*_create_{table}.sql")
        for name, kind in columns.items():
            assert f"  {name} {kind},\n" in script.read_text()


@pytest.mark.stack
def test_columns_are_added_to_a_table_that_has_partitions(hive: Hive) -> None:
    name = f"older_{secrets.token_hex(4)}"
    location = f"{hive.settings.hdfs.namenode}{hive.settings.hdfs.warehouse}/{name}"
    hive.query(
        f"CREATE TABLE {name} (task STRING, topic STRING, day STRING) USING parquet "
        f"PARTITIONED BY (topic, day) LOCATION '{location}'"
    )
    try:
        hive.query(f"INSERT INTO {name} PARTITION (topic = 'a', day = '2015-05-17') VALUES ('before')")
        hive._add_columns(name, LATER_COLUMNS["task_results"])
        hive._add_columns(name, LATER_COLUMNS["task_results"])
        hive.query(
            f"INSERT INTO {name} PARTITION (topic = 'a', day = '2015-05-18') "
            "VALUES ('after', map('top1', '[]'), map('p50', 0.5D))"
        )
        found = hive.query(f"SELECT task, texts['top1'], errors['p50'], day FROM {name} ORDER BY day").rows
    finally:
        hive.query(f"DROP TABLE {name}")
        HdfsStore.of(hive.settings).delete(f"{hive.settings.hdfs.warehouse}/{name}", recursive=True)
    assert found == [("before", None, None, "2015-05-17"), ("after", "[]", 0.5, "2015-05-18")]
