"""Tables that an operator dropped, on the running stack: they come back with what was computed."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import date

import pytest
from pyspark.sql import SparkSession

from sluice.batch import offline
from sluice.runtime.settings import Settings
from sluice.storage.hdfs import HdfsStore
from sluice.storage.hive import Hive, SqlFailed
from sluice.storage.tables.days import Days
from sluice.tasks.spec import TaskSpec
from tests import hive_database
from tests.quality.two_layers import TwoLayers

pytestmark = pytest.mark.stack

DAY = date(2015, 5, 17)
LINE = b'h - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 1'
TABLES = ("raw", "logs", "task_results")


class DiesBeforeItIsBooked(RuntimeError):
    """A run that is killed when its partitions are shown, and the book does not have them yet."""


@pytest.fixture
def topic(stack: Settings) -> Iterator[TwoLayers]:
    with hive_database.own(stack) as settings:
        made = TwoLayers(settings, f"dropped_{secrets.token_hex(4)}")
        spec = {"topic": made.topic, "name": f"{made.topic}_hits", "period": "1h", "metrics": ["count"]}
        made.apply(TaskSpec.model_validate(spec))
        yield made
        made.forget()


def both(topic: TwoLayers, file: str) -> None:
    records = topic.records([(file, 0, LINE)])
    topic.archive(records)
    topic.count(records)


def drop_and_bring_back(topic: TwoLayers) -> None:
    with Hive(topic.settings) as hive:
        for name in ("TABLE logs", "TABLE task_results", "TABLE raw_files", "VIEW raw"):
            hive.query(f"DROP {name}")
        for table in TABLES:
            with pytest.raises(SqlFailed, match=f"^the table {table} is missing; `sluice up` makes it again"):
                hive.query(f"SELECT count(*) FROM {table}")
    hive_database.bring_back(topic.settings)


def rows(topic: TwoLayers) -> dict[str, list[tuple[object, ...]]]:
    with Hive(topic.settings) as hive:
        found = {
            table: hive.query(f"SELECT * FROM {table} WHERE topic = %(topic)s", {"topic": topic.topic}).rows
            for table in TABLES
        }
    return {table: sorted(some, key=repr) for table, some in found.items()}


def test_dropped_tables_have_the_same_rows_again(topic: TwoLayers, spark: SparkSession) -> None:
    both(topic, "a.log")
    offline.run(spark, topic.settings, topic.topic, [DAY], "first")
    both(topic, "b.log")
    offline.run(spark, topic.settings, topic.topic, [DAY], "second")
    before = rows(topic)
    assert [len(before[table]) for table in TABLES] == [2, 2, 1]
    drop_and_bring_back(topic)
    assert rows(topic) == before


def test_however_many_runs_died_the_day_that_was_booked_is_shown(
    topic: TwoLayers, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    both(topic, "a.log")
    offline.run(spark, topic.settings, topic.topic, [DAY], "booked")
    before = rows(topic)
    both(topic, "b.log")

    def dies(*_: object, **__: object) -> None:
        raise DiesBeforeItIsBooked

    with monkeypatch.context() as patch:
        patch.setattr(Days, "set_computed", dies)
        for run in ("dies", "dies, too"):
            with pytest.raises(offline.DaysFailed, match="DiesBeforeItIsBooked"):
                offline.run(spark, topic.settings, topic.topic, [DAY], run)
    drop_and_bring_back(topic)
    again = rows(topic)
    assert again == {**before, "raw": again["raw"]}
    assert len(again["raw"]) == 2  # the archive has all
    offline.run(spark, topic.settings, topic.topic, [DAY], "lives")
    assert len(rows(topic)["logs"]) == 2
    base = f"{topic.settings.hdfs.warehouse}/{topic.settings.hive.database}.db/logs/topic={topic.topic}"
    assert len(HdfsStore.of(topic.settings).list(f"{base}/day={DAY}")) == 2
