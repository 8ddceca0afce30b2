"""Tables that lost days get back what the book of days has, and nothing else."""

from __future__ import annotations

import io
import secrets
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from sluice.runtime.settings import Settings
from sluice.storage.hdfs import HdfsStore
from sluice.storage.hive import Hive, SqlFailed
from sluice.storage.partitions import LOGS, TASK_RESULTS, Partition, restore
from sluice.storage.postgres import engine
from sluice.storage.tables import schema
from sluice.storage.tables.days import Days
from tests import hive_database

pytestmark = pytest.mark.stack

DAY, NEXT = date(2015, 5, 17), date(2015, 5, 18)
SHOWN = {LOGS: "line", TASK_RESULTS: "task"}  # a column of text


class Site:
    """A topic whose days are written as the batch layer does, without a computation."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.hive, self.store = settings, Hive(settings), HdfsStore.of(settings)
        self.book = Days(engine(settings), f"dropped_{secrets.token_hex(4)}")

    def write(self, day: date, text: str) -> dict[str, Partition]:
        """The files of a run, which nothing shows yet."""
        now, made = self.book.now(), {}
        for table, column in SHOWN.items():
            made[table] = Partition.new(self.settings, table, self.book.topic, day, now)
            sink = io.BytesIO()
            pq.write_table(pa.table({column: [text]}), sink)
            self.store.write(f"{made[table].directory}/{made[table].name}/part-0.parquet", sink.getvalue())
        return made

    def point(self, day: date, partitions: dict[str, Partition]) -> None:
        for table, partition in partitions.items():
            self.hive.set_partition(table, self.book.topic, day, partition.location)

    def compute(self, day: date, text: str) -> dict[str, Partition]:
        made = self.write(day, text)
        self.point(day, made)
        self.book.set_computed(day, cut={"0": 1}, run_id="r", tasks_seq=0, raw_lines=1, lines=1)
        return made

    def shown(self) -> dict[str, list[tuple[str, str]]]:
        """The day and text of each row of both tables."""
        where = {"topic": self.book.topic}
        return {
            table: self.hive.query(
                f"SELECT day, {column} FROM {table} WHERE topic = %(topic)s ORDER BY 1, 2",
                where,
            ).rows
            for table, column in SHOWN.items()
        }

    def drop_and_bring_back(self) -> None:
        for table in SHOWN:
            self.hive.query(f"DROP TABLE {table}")
        hive_database.bring_back(self.settings)

    def forget(self) -> None:
        with self.book.engine.begin() as connection:
            for each in (schema.days, schema.dropped_days):
                connection.execute(sa.delete(each).where(each.c.topic == self.book.topic))
        self.hive.close()


@pytest.fixture
def site(stack: Settings) -> Iterator[Site]:
    with hive_database.own(stack) as settings:
        made = Site(settings)
        yield made
        made.forget()


def both(rows: list[tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
    """What is shown if both tables have these."""
    return dict.fromkeys(SHOWN, rows)


def test_what_a_run_that_died_left_is_not_shown(site: Site) -> None:
    site.compute(DAY, "computed")
    site.point(DAY, site.write(DAY, "of a run that died before it was booked"))
    site.write(NEXT, "of a run that died before its day was ever booked")
    site.drop_and_bring_back()
    assert site.shown() == both([("2015-05-17", "computed")])


def test_partitions_that_were_dropped_come_back_and_others_stay(site: Site) -> None:
    site.compute(DAY, "computed")
    site.compute(NEXT, "other")
    newer = site.write(NEXT, "of a run that is about to be booked")
    site.point(NEXT, newer)
    site.hive.drop_partition(LOGS, site.book.topic, DAY)
    assert restore(site.hive) == 1
    assert restore(site.hive) == 0
    shown = [("2015-05-17", "computed"), ("2015-05-18", "of a run that is about to be booked")]
    assert site.shown() == both(shown)


def test_results_of_a_day_beyond_retention_stay_dropped_and_its_lines_come_back(site: Site) -> None:
    site.compute(DAY, "computed")
    with site.book.engine.begin() as connection:
        connection.execute(sa.insert(schema.dropped_days).values(topic=site.book.topic, day=DAY))
    site.drop_and_bring_back()
    assert site.shown() == {LOGS: [("2015-05-17", "computed")], TASK_RESULTS: []}


def test_a_day_whose_files_are_gone_hinders_no_other(site: Site) -> None:
    for partition in site.compute(DAY, "gone").values():
        site.store.delete(partition.directory, recursive=True)
    site.compute(NEXT, "other")
    site.drop_and_bring_back()
    assert site.shown() == both([("2015-05-18", "other")])


def test_times_sort_as_text_in_every_zone(stack: Settings) -> None:
    now = datetime(2015, 5, 18, 1, 59, 59, tzinfo=timezone(timedelta(hours=2)))
    later = now.astimezone(UTC) + timedelta(microseconds=1)
    names = [Partition.new(stack, LOGS, "logs", DAY, each).name for each in (now, later)]
    assert names == sorted(names)
    assert names[0].startswith("20150517T235959.000000-")
    assert names[1].startswith("20150517T235959.000001-")


def test_a_table_of_somebody_else_is_not_called_the_platform_s(site: Site) -> None:
    for name in ("nobody_has_it", "default.logs"):
        with pytest.raises(SqlFailed, match="TABLE_OR_VIEW_NOT_FOUND"):
            site.hive.query(f"SELECT * FROM {name}")
    with pytest.raises(SqlFailed, match=r"^the view v_of_no_task is missing; if there is such a task"):
        site.hive.query("SELECT * FROM v_of_no_task")
