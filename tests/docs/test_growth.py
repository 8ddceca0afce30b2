"""docs/runbook.md says what grows, its bound, the setting and who prunes it: the code does so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sluice.quality import expectations
from sluice.runtime import detached
from sluice.runtime.settings import ROOT, Settings
from sluice.stack import job_logs
from sluice.storage.tables import rebalances, reconciled, samples, schema, units

MARK = "<!-- what grows: checked by tests/docs/test_growth.py -->"
NAME = re.compile(r"`([\w.]+)`")
TASK = re.compile(r"DAG `retention`, tasks? (`\w+`(?: and `\w+`)?)")
TEMPLATES = ROOT / "include" / "sluice" / "stack" / "templates"
#: Names in the first column that are no tables of PostgreSQL's.
OTHERS = {"task_results", "logs", "reconciliations"}


def rows() -> list[list[str]]:
    """What, grows by, bound, setting, who prunes."""
    text = (ROOT / "docs" / "runbook.md").read_text()
    table = text[text.index(MARK) :].split("\n\n", 1)[0].splitlines()[3:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table]


def row(what: str) -> list[str]:
    (found,) = (each for each in rows() if each[0].startswith(what))
    return found


def test_each_table_has_a_row() -> None:
    named = [name for each in rows() for name in NAME.findall(each[0])]
    assert sorted(set(named) - OTHERS) == sorted(schema.metadata.tables)
    assert len(named) == len(set(named))


def test_each_setting_is_there_and_in_one_row_of_its_own() -> None:
    used = {each[3].strip("`") for each in rows()} - {""}
    for name in used:
        section, field = name.split(".")
        assert field in getattr(Settings(instance="test"), section).__class__.model_fields, name
    kept = {f"retention.{name}" for name in Settings(instance="test").retention.__class__.model_fields}
    assert used == kept | {"kafka.retention_days", "kafka.retention_bytes"}


def test_each_task_that_prunes_is_in_the_dag() -> None:
    dag = (ROOT / "dags" / "retention.py").read_text()
    there = set(re.findall(r'task_id="(\w+)"', dag))
    named = {name for each in rows() for task in TASK.findall(each[4]) for name in NAME.findall(task)}
    assert named == there


def test_what_has_no_bound_says_why() -> None:
    without = [each for each in rows() if each[4] == "nobody"]
    assert all(each[2].startswith("none") and not each[3] for each in without)
    assert all(not each[2].startswith("none") for each in rows() if each[4] != "nobody")


def test_the_numbers_are_those_of_the_code() -> None:
    assert f"{reconciled.KEPT} a day" in row("`day_comparisons`")[2]
    assert f"{expectations.KEPT} a day" in row("Data Docs")[2]
    assert f"{samples.KEPT.total_seconds() / 3600:g} hours" in row("`figures`")[2]
    assert f"{rebalances.KEPT:,} rows" in row("`rebalances`")[2]
    assert f"{units.KEPT:,} moves" in row("`unit_loads`")[2]
    assert row("logs of jobs")[2] == f"{job_logs.MOST_BYTES >> 20} MB, and four before it"
    assert detached.LOGS_KEPT == 4


def template(name: str) -> str:
    return (TEMPLATES / name).read_text()


def test_daemons_logs_are_turned_by_the_supervisor_alone() -> None:
    assert row("logs of daemons")[2] == "16 MB, and three before it"
    text = template("supervisord.conf")
    for section in text.split("[program:")[1:]:
        assert "redirect_stderr=true" in section
        assert int(re.findall(r"stdout_logfile_maxbytes=(\d+)MB", section)[0]) <= 16
        assert int(re.findall(r"stdout_logfile_backups=(\d+)", section)[0]) <= 3
    assert "logfile_maxbytes=4MB" in text.split("[program:")[0]
    for name in ("log4j.properties", "log4j2.properties", "spark-log4j2.properties"):
        assert "Console" in template(name)
        assert "File" not in template(name)
    assert "logging_collector = off" in template("postgresql.conf")


def test_flumes_logs_are_turned() -> None:
    text = (ROOT / "include" / "sluice" / "collection" / "templates" / "log4j2.properties.j2").read_text()
    assert row("logs of Flume")[2] == "8 MB, and three before it"
    assert "policies.size.size = 8MB" in text
    assert "strategy.max = 3" in text


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("hdfs-site.xml", "dfs.namenode.num.checkpoints.retained</name><value>2<"),
        ("hdfs-site.xml", "dfs.namenode.num.extra.edits.retained</name><value>100000<"),
        ("hbase-site.xml", "hbase.master.logcleaner.ttl</name><value>600000<"),
        ("hbase-site.xml", "hbase.master.hfilecleaner.ttl</name><value>300000<"),
        ("kafka.properties", "log.retention.hours={{ 24 * settings.kafka.retention_days }}"),
    ],
)
def test_daemons_that_prune_by_themselves_are_told_when(file: str, said: str) -> None:
    assert said in template(file)


def test_nothing_is_written_where_nobody_prunes() -> None:
    """Spark's event logs would stay for ever, and so would dumps of a heap."""
    texts = [path.read_text() for path in TEMPLATES.iterdir() if path.is_file()]
    code = [path.read_text() for path in Path(ROOT, "include", "sluice").rglob("*.py")]
    for word in ("spark.eventLog.enabled", "HeapDumpOnOutOfMemoryError", "-Xlog:gc"):
        assert not [text for text in (*texts, *code) if word in text]
