"""Where the days of `logs` and `task_results` lie in HDFS, and how a table gets back the days that it lost.

Each computation of a day writes a directory of its own, whose name begins with the time of the book's clock.
The day's lock is held until the book of days has the computation. So the newest directory whose time is not
after `computed_at` is the one that the book means. A later one is of a run that died, or still runs.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime

import sqlalchemy as sa

from sluice.runtime.settings import Settings
from sluice.storage.hdfs import HdfsStore
from sluice.storage.hive import Hive
from sluice.storage.postgres import engine
from sluice.storage.tables import schema
from sluice.storage.tables.days import Day, Days

LOGS, TASK_RESULTS = "logs", "task_results"
#: The newest and the one before it, so that a query that began before the swap can finish.
VERSIONS_KEPT = 2


@dataclass(frozen=True)
class Partition:
    """The directories of one table's partition: one for each run, with names that sort by time."""

    directory: str
    name: str
    namenode: str

    @classmethod
    def new(cls, settings: Settings, table: str, topic: str, day: date, now: datetime) -> Partition:
        """That of a run which begins now, by the book's clock."""
        name = f"{_time(now)}-{secrets.token_hex(4)}"
        return cls(_directory(settings, table, topic, day), name, settings.hdfs.namenode)

    @classmethod
    def booked(cls, settings: Settings, table: str, day: Day) -> Partition | None:
        """That of the computation which the book has; None if it is gone."""
        directory, until = _directory(settings, table, day.topic, day.day), _time(day.computed_at)
        names = [file.name for file in HdfsStore.of(settings).list(directory)]
        there = [name for name in names if name.partition("-")[0] <= until]
        return cls(directory, max(there), settings.hdfs.namenode) if there else None

    @property
    def location(self) -> str:
        return f"{self.namenode}{self.directory}/{self.name}"

    def remove_older(self, store: HdfsStore) -> None:
        names = sorted(file.name for file in store.list(self.directory) if file.name <= self.name)
        for name in names[:-VERSIONS_KEPT]:
            store.delete(f"{self.directory}/{name}", recursive=True)


class DaysAbsent(LookupError):
    """Days that were computed are not in a table: they must not be read as days without lines."""

    def __init__(self, hive: Hive, table: str, topic: str, days: Iterable[date]) -> None:
        names = ", ".join(str(day) for day in sorted(days))
        super().__init__(
            f"{hive.settings.hive.database}.{table} has no partition of {topic} {names}, though the batch "
            "layer computed it: `sluice up` shows it again from its files, if they are still there"
        )


def check_there(
    hive: Hive, book: Days, days: Iterable[date], tables: Iterable[str] = (LOGS, TASK_RESULTS)
) -> None:
    """Raise DaysAbsent if a day that is computed lacks its lines, or its results, which may be dropped."""
    computed = book.computed().intersection(days)
    for table in tables:
        if absent := computed - hive.days(table, book.topic):
            if table == TASK_RESULTS:
                absent = {day for day in absent if not book.dropped(day)}
            if absent:
                raise DaysAbsent(hive, table, book.topic, absent)


def restore(hive: Hive) -> int:
    """Show the days again that the book has and a table lacks; returns how many partitions came back."""
    database = engine(hive.settings)
    with database.connect() as connection:
        booked = connection.execute(sa.select(schema.days.c.topic, schema.days.c.day)).all()
    found = 0
    for table in (LOGS, TASK_RESULTS):
        there = hive.partitions(table)
        for topic, day in booked:
            if (topic, day) not in there:
                found += _restored(hive, table, Days(database, topic), day)
    return found


def _restored(hive: Hive, table: str, book: Days, day: date) -> bool:
    """Whether there is something to show of the day; the results of a dropped day stay dropped."""
    with book.locked(day):
        booked = book.get(day)
        if booked is None or (table == TASK_RESULTS and book.dropped(day)):
            return False
        partition = Partition.booked(hive.settings, table, booked)
        if partition is not None:
            hive.add_partition(table, book.topic, day, partition.location)
        return partition is not None


def _directory(settings: Settings, table: str, topic: str, day: date) -> str:
    return f"{settings.hdfs.warehouse}/{settings.hive.database}.db/{table}/topic={topic}/day={day}"


def _time(when: datetime) -> str:
    """As text that sorts by time."""
    return f"{when.astimezone(UTC):%Y%m%dT%H%M%S.%f}"
