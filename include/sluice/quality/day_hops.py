"""A day's lines at each hop between Kafka and Hive, two independent counts a hop."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from sluice.storage import schema
from sluice.storage.days import Day, Days
from sluice.storage.hive import Hive


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
    """The hops of a computed day, in the order in which lines pass them."""
    offsets, archived, lines = _archive(book.engine, day)
    stored = hive.query(
        "SELECT count(*) FROM logs WHERE topic = %(topic)s AND day = %(day)s",
        {"topic": day.topic, "day": day.day.isoformat()},
    ).scalar()
    return [
        Hop("Kafka to archive", "offsets below the cut", offsets, "offsets in archive files", archived),
        Hop(
            "archive to batch",
            "lines by the archive's footers",
            lines,
            "lines read by the batch",
            day.raw_lines,
        ),
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


def _archive(database: sa.Engine, day: Day) -> tuple[int, int, int]:
    """Offsets that the archive should cover and does cover below the cut; the day's lines in its files."""
    f = schema.archive_files.c
    newest = (
        sa.select(f.topic_id)
        .where(f.topic == day.topic)
        .order_by(f.arrival_max.desc())
        .limit(1)
        .scalar_subquery()
    )
    query = sa.select(f.partition, f.first, f.next, f.days).where(f.topic == day.topic, f.topic_id == newest)
    begins: dict[str, int] = {}
    covered = lines = 0
    with database.connect() as connection:
        for row in connection.execute(query):
            partition = str(row.partition)
            if row.first >= day.cut.get(partition, 0):
                continue
            begins[partition] = min(begins.get(partition, row.first), row.first)
            covered += row.next - row.first
            lines += row.days.get(day.day.isoformat(), 0)
    # Retention takes the oldest files: the chain may begin anywhere.
    return sum(day.cut[partition] - first for partition, first in begins.items()), covered, lines
