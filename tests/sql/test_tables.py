"""The tables that a database must have, and how it is brought to have them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sluice.runtime.settings import Settings
from sluice.sql.tables import MARK, Table, keep, of_task, tables
from sluice.storage.hive import Rows
from sluice.tasks.spec import ActiveTask
from tests.engine.samples import BYTES, active, spec


def task(task_id: int = 7, version: int = 2, **fields: Any) -> ActiveTask:
    return ActiveTask(task_id, version, active(spec(**fields))[0].spec)


class Metastore:
    """Remembers tables by the statements of `keep`."""

    def __init__(self) -> None:
        self.settings = Settings(instance="test")
        self.tables: dict[str, str] = {}
        self.asked: list[str] = []

    def query(self, sql: str) -> Rows:
        self.asked.append(sql)
        if sql.startswith("SHOW"):
            return Rows([], [("sluice", name, False, said) for name, said in self.tables.items()])
        name = re.match(r"(?:CREATE OR REPLACE TABLE|DROP TABLE IF EXISTS) sluice\.(\w+)", sql)
        assert name is not None
        if sql.startswith("DROP"):
            self.tables.pop(name[1], None)
        else:
            mark = re.search(rf"'{MARK}' = '(\w+)'", sql)
            assert mark is not None
            self.tables[name[1]] = f"Table Properties: [{MARK}={mark[1]}, task=1]\n"
        return Rows([], [])


def test_a_task_s_table_has_typed_columns_and_says_what_it_counts() -> None:
    of = task(
        name="per-path",
        period="1h",
        timezone="Europe/Berlin",
        dimensions=[{"name": "path", "extract": {"delimiter": " ", "index": 6}}],
        measure=BYTES,
        metrics=["count", "avg", "unique", "top3"],
    )
    found = of_task(of, "v_per_path")
    assert {column.name: column.type for column in found.columns} == {
        "period": "TIMESTAMP",
        "path": "STRING",
        "count": "BIGINT",
        "avg": "DOUBLE",
        "unique": "DOUBLE",
        "unique_error": "DOUBLE",
        "top3": "STRING",
        "top3_error": "DOUBLE",
        "state": "STRING",
    }
    assert found.comment == (
        "Task per-path, version 2: count, avg, unique, top3 of the lines of topic logs, every 1h "
        "(Europe/Berlin), by path"
    )
    assert found.options == (("task", "7"), ("version", "2"))
    assert "OPTIONS (task '7', version '2') COMMENT 'Task per-path, version 2:" in found.create("sluice")


def test_a_task_s_select_is_its_comment() -> None:
    of = active(spec())[0]
    written = ActiveTask(1, 1, of.spec.model_copy(update={"sql": "SELECT  count(*)\nFROM logs"}))
    assert of_task(written, "v_x").comment == "Task sample, version 1: SELECT count(*) FROM logs"


def test_a_task_s_description_is_its_comment() -> None:
    of = active(spec(description="it's ${x}"))[0]
    for sql in (None, "SELECT count(*) FROM logs"):
        written = of_task(ActiveTask(1, 1, of.spec.model_copy(update={"sql": sql})), "v_x")
        assert written.comment == "Task sample, version 1: it's ${x}"
        assert written.create("sluice").count("version 1: it\\u0027s \\u0024\\u007bx\\u007d'") == 2
    assert of_task(of, "v_x").digest != of_task(active(spec(description="another"))[0], "v_x").digest


def test_quotes_in_a_comment_end_nothing() -> None:
    made = Table("v_x", (), "it's ${x}").create("sluice")
    assert "it\\u0027s \\u0024\\u007bx\\u007d" in made


def test_tasks_whose_names_differ_in_a_dash_have_tables_of_their_own() -> None:
    found = tables([task(9, name="a_b"), task(3, name="a-b"), task(4, name="c")])
    assert [each.name for each in found] == ["results", "v_a_b", "v_c", "v_a_b_9"]
    assert [dict(each.options).get("task") for each in found] == [None, "3", "4", "9"]


def test_tables_appear_follow_versions_and_go() -> None:
    there = Metastore()
    first, second = task(1, 1, name="a"), task(2, 1, name="b")
    assert keep(there, tables([first, second])) == [  # type: ignore[arg-type]
        "table results was created",
        "table v_a was created",
        "table v_b was created",
    ]
    changed = task(1, 2, name="a")
    assert keep(there, tables([changed])) == ["table v_a was replaced", "table v_b was dropped"]  # type: ignore[arg-type]
    assert sorted(there.tables) == ["results", "v_a"]
    there.asked.clear()
    assert keep(there, tables([changed])) == []  # type: ignore[arg-type]
    assert len(there.asked) == 1


def test_a_table_that_was_lost_is_created_again() -> None:
    there = Metastore()
    keep(there, tables([task(name="a")]))  # type: ignore[arg-type]
    there.tables.clear()
    assert len(keep(there, tables([task(name="a")]))) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["v_a", "v_other"])
def test_a_table_of_somebody_else_stays(name: str) -> None:
    there = Metastore()
    there.tables[name] = "Provider: parquet"
    done = keep(there, tables([task(name="a")]))  # type: ignore[arg-type]
    assert there.tables[name] == "Provider: parquet"
    assert ("table v_a is not the platform's own, and stays: drop it" in done) == (name == "v_a")
