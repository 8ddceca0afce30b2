"""The tables that a database must have, and how it is brought to have them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sluice.runtime.settings import Settings
from sluice.sql.metastore import keep
from sluice.sql.tables import MARK, SqlTable, of_task, tables
from sluice.storage.hive import SqlRows, SqlUnavailable
from sluice.tasks.spec import ActiveTask
from tests.engine.samples import BYTES, active, spec


def task(task_id: int = 7, version: int = 2, **fields: Any) -> ActiveTask:
    return ActiveTask(task_id, version, active(spec(**fields))[0].spec)


class Metastore:
    """Remembers databases, tables and views by the statements of `keep`."""

    def __init__(self) -> None:
        self.settings = Settings(instance="test")
        self.said: dict[str, dict[str, str]] = {}  # by database and name: what SHOW TABLE EXTENDED says
        self.shown: dict[str, str] = {}  # which table each view shows
        self.asked: list[str] = []

    @property
    def views(self) -> list[str]:
        return sorted(self.said["sluice"])

    @property
    def stored(self) -> list[str]:
        """The tables behind the views, without their digests."""
        return sorted(name.split("__")[0] for name in self.said["sluice_stored"])

    def query(self, sql: str) -> SqlRows:
        self.asked.append(sql)
        if created := re.match(r"CREATE DATABASE IF NOT EXISTS (\w+)", sql):
            self.said.setdefault("sluice", {})
            self.said.setdefault(created[1], {})
            return SqlRows([], [])
        if asked := re.match(r"SHOW TABLE EXTENDED IN (\w+)", sql):
            return SqlRows([], [(asked[1], name, False, said) for name, said in self.said[asked[1]].items()])
        made = re.match(r"(CREATE|ALTER|DROP) (TABLE|VIEW) (?:IF (?:NOT )?EXISTS )?(\w+)\.(\w+)", sql)
        assert made is not None, sql
        action, kind, database, name = made.groups()
        assert (name in self.said[database]) == (action != "CREATE"), sql
        if action == "DROP":
            assert (kind == "VIEW") == ("Type: VIEW" in self.said[database].pop(name))
            self.shown.pop(name, None)
            return SqlRows([], [])
        if mark := re.search(rf"'{MARK}' = '(\w+)'", sql):
            self.said[database][name] = f"Type: {kind}\nTable Properties: [{MARK}={mark[1]}, task=1]\n"
        if table := re.search(r" AS TABLE sluice_stored\.(\w+)$", sql):
            assert table[1] in self.said["sluice_stored"]
            self.shown[name] = table[1]
        return SqlRows([], [])


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
    made = SqlTable("v_x", (), "it's ${x}").create("sluice")
    assert "it\\u0027s \\u0024\\u007bx\\u007d" in made


def test_tasks_whose_names_differ_in_a_dash_have_tables_of_their_own() -> None:
    found = tables([task(9, name="a_b"), task(3, name="a-b"), task(4, name="c")])
    assert [each.name for each in found] == ["results", "v_a_b", "v_c", "v_a_b_9"]
    assert [dict(each.options).get("task") for each in found] == [None, "3", "4", "9"]


def kept(there: Metastore, *tasks: ActiveTask) -> list[str]:
    """Bring the metastore to the tasks; every view then shows the table that must be there."""
    wanted = tables(tasks)
    done = keep(there, wanted)  # type: ignore[arg-type]
    for table in wanted:
        assert there.shown.get(table.name) in (None, table.stored)
    return done


def test_tables_appear_follow_versions_and_go() -> None:
    there = Metastore()
    first, second = task(1, 1, name="a"), task(2, 1, name="b")
    assert kept(there, first, second) == [
        "table results was created",
        "table v_a was created",
        "table v_b was created",
    ]
    changed = task(1, 2, name="a")
    assert kept(there, changed) == ["table v_a was replaced", "table v_b was dropped"]
    assert there.views == ["results", "v_a"]
    there.asked.clear()
    assert kept(there, changed) == []
    assert not [sql for sql in there.asked if "VIEW" in sql]


def test_a_view_is_never_away_while_it_gets_another_table() -> None:
    there = Metastore()
    kept(there, task(1, 1, name="a"))
    there.asked.clear()
    kept(there, task(1, 2, name="a"))
    about = [sql.split(" sluice.")[0] for sql in there.asked if "sluice.v_a" in sql]
    assert about == ["ALTER VIEW", "ALTER VIEW"]


def test_a_table_stays_until_the_tables_are_compared_again() -> None:
    """A statement may have read the view just before it was altered or dropped."""
    there = Metastore()
    kept(there, task(1, 1, name="a"), task(2, 1, name="b"))
    kept(there, task(1, 2, name="a"))
    assert there.stored == ["results", "v_a", "v_a", "v_b"]
    kept(there, task(1, 2, name="a"))
    assert there.stored == ["results", "v_a"]


def test_a_replacement_that_was_cut_off_is_done_again() -> None:
    there = Metastore()
    kept(there, task(1, 1, name="a"))
    whole = there.query

    def cut_off(sql: str) -> SqlRows:
        if "SET TBLPROPERTIES" in sql:
            raise SqlUnavailable("away")
        return whole(sql)

    there.query = cut_off  # type: ignore[method-assign]
    with pytest.raises(SqlUnavailable):
        kept(there, task(1, 2, name="a"))
    there.query = whole  # type: ignore[method-assign]
    assert kept(there, task(1, 2, name="a")) == ["table v_a was replaced"]


def test_a_view_or_a_table_that_was_lost_is_created_again() -> None:
    there = Metastore()
    kept(there, task(name="a"))
    there.said["sluice"].clear()
    assert kept(there, task(name="a")) == ["table results was created", "table v_a was created"]
    there.said["sluice_stored"].clear()
    assert kept(there, task(name="a")) == ["table results was created again", "table v_a was created again"]
    there.said.clear()
    assert len(kept(there, task(name="a"))) == 2


def test_the_tables_of_an_earlier_release_become_views() -> None:
    there = Metastore()
    same = of_task(task(name="a"), "v_a")
    there.said["sluice"] = {
        "v_a": f"Type: MANAGED\nTable Properties: [{MARK}={same.digest}]\n",
        "v_gone": f"Type: MANAGED\nTable Properties: [{MARK}=0123]\n",
    }
    done = kept(there, task(name="a"))
    assert done == ["table results was created", "table v_a was replaced", "table v_gone was dropped"]
    assert there.shown == {"results": tables([])[0].stored, "v_a": same.stored}


@pytest.mark.parametrize("name", ["v_a", "v_other"])
def test_a_table_of_somebody_else_stays(name: str) -> None:
    there = Metastore()
    there.said["sluice"] = {name: "Provider: parquet"}
    done = kept(there, task(name="a"))
    assert there.said["sluice"][name] == "Provider: parquet"
    assert ("table v_a is not the platform's own, and stays: drop it" in done) == (name == "v_a")
