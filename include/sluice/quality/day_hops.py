"""A day's lines at each hop between Kafka and Hive, with two independent counts for each."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.archive.coverage import coverage
from sluice.storage.hive import Hive
from sluice.storage.tables.days import Day, Days


@dataclass(frozen=True)
class Hop:
    """Two counts that must be equal, and what each is."""

    name: str
    left: str
    left_count: int
    right: str
    right_count: int

    @property
    def agrees(self) -> bool:
        return self.left_count == self.right_count

    def __str__(self) -> str:
        return f"{self.name}: {self.left_count} {self.left}, {self.right_count} {self.right}"


def day_hops(book: Days, hive: Hive, day: Day) -> list[Hop]:
    """The hops of a computed day, in the order in which lines pass them.

    Those of the archive are left out once retention has deleted lines of the day from it.
    """
    kept = coverage(book.engine, day.topic, day.day, day.cut)
    stored = hive.query(
        "SELECT count(*) FROM logs WHERE topic = %(topic)s AND day = %(day)s",
        {"topic": day.topic, "day": day.day.isoformat()},
    ).scalar()
    of_archive = [
        Hop(
            "Kafka to archive",
            "offsets below the cut",
            kept.expected,
            "offsets in archive files",
            kept.offsets,
        ),
        Hop(
            "archive to batch",
            "lines by the archive's footers",
            kept.lines,
            "lines read by the batch",
            day.raw_lines,
        ),
    ]
    return [
        *(() if day.day in book.expired() else of_archive),
        Hop(
            "batch to Hive",
            "unique lines counted by the batch",
            day.lines,
            "rows in Hive's logs",
            int(stored),
        ),
        Hop(
            "speed layer and batch",
            "unique lines online",
            book.online(day.day).lines,
            "unique lines offline",
            day.lines,
        ),
    ]
