"""A topic whose archive is on this machine, and the books as the speed layer would have left them."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from sluice.archive.contents import as_records
from sluice.archive.file import of_records
from sluice.batch.barred import PLACES
from sluice.batch.day_lines import DayOf, of_day, reasons
from sluice.batch.task_versions import task_versions
from sluice.engine.count import count
from sluice.engine.plan import EnginePlan
from sluice.runtime.days import DAY_MS
from sluice.runtime.sections import Limits
from sluice.storage.tables import schema, tallies
from sluice.storage.tables.tallies import COUNTS
from sluice.tasks.spec import TaskSpec
from sluice.tasks.store import TaskStore
from sluice.tasks.topic_spec import TopicSpec
from sluice.transmission.line_schema import LINE_SCHEMA
from tests.archive.local_archive import PLACE, LocalArchive

DAYS = (date(2015, 5, 17), date(2015, 5, 18))
#: Whose lines are erased.
PERSON = "10.0.0.1"
ARRIVED_MS = 1_431_857_100_000
TOPIC = TopicSpec(name="logs")
LIMITS = Limits()
_ADVISORY = {"hashtextextended": 2, "pg_try_advisory_lock": 1, "pg_advisory_lock": 1, "pg_advisory_unlock": 1}

SPECS = [
    {"name": "hits", "period": "1h", "dimensions": [{"name": "who", "extract": {"field": "client"}}]},
    {
        "name": "found",
        "period": "1d",
        "where": [{"extract": {"field": "status"}, "filter": {"mode": "black", "values": ["404"]}}],
        "dimensions": [{"name": "path", "extract": {"regex": "GET /p([0-9]+)"}}],
    },
]
Sums = tuple[list[tuple[Any, ...]], list[tuple[Any, ...]], int]


def line(dice: random.Random, client: str) -> bytes:
    """A line of one of the days; some are dead letters, which name the client, too."""
    if dice.random() < 0.1:
        return f"{client} wrote nothing that has a time".encode()
    at = f"{dice.choice((17, 18))}/May/2015:{dice.randrange(24):02}:05:03 +0000"
    path, status = dice.choice(("/p1", "/p2", "/other")), dice.choice((200, 404))
    return f'{client} - - [{at}] "GET {path} HTTP/1.1" {status} 17'.encode()


@dataclass
class TwoBooks:
    """The topic; `sent` are its lines so far, each with its place in its file."""

    folder: Path
    seed: int = 1
    archive: LocalArchive = field(init=False)
    sent: list[tuple[int, bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.archive, self.dice = LocalArchive(self.folder), random.Random(self.seed)  # noqa: S311
        self.database = self.archive.database
        with self.database.connect() as connection:
            raw = connection.connection.driver_connection
            assert isinstance(raw, sqlite3.Connection)
            for name, arguments in _ADVISORY.items():
                raw.create_function(name, arguments, lambda *_: 1)
        common = {"topic": "logs", "metrics": ["count"]}
        TaskStore(self.database).apply([TaskSpec.model_validate(each | common) for each in SPECS], "ann")

    def write(self, number: int) -> list[tuple[int, bytes]]:
        """New lines of the file, of three clients."""
        for _ in range(number):
            at = self.sent[-1][0] + len(self.sent[-1][1]) + 1 if self.sent else 0
            self.sent.append((at, line(self.dice, f"10.0.0.{self.dice.choice((1, 2, 11))}")))
        return self.sent[-number:]

    def send(self, lines: Sequence[tuple[int, bytes]], *, days_later: int = 0) -> None:
        """Archive these lines of the file, two to a record; they arrive so much later than 2015-05-17."""
        places = [n % 2 for n in range(len(lines))]
        offsets = [self.archive.position + n // 2 for n in range(len(lines))]
        size = len(lines)
        columns = [
            pa.array(np.full(size, 3, np.int32)),
            pa.array(offsets, pa.int64()),
            pa.array([ARRIVED_MS + days_later * DAY_MS + offset for offset in offsets], pa.int64()),
            pa.array(["web1"] * size),
            pa.array(["access.log"] * size),
            pa.array([at for at, _ in lines], pa.int64()),
            pa.array([text for _, text in lines], pa.binary()),
            pa.array([False] * size),
            pa.array(places, pa.int32()),
            pa.nulls(size, pa.string()),
            pa.nulls(size, pa.int64()),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=LINE_SCHEMA)
        self.archive.publish(of_records(PLACE, self.archive.position, [batch], 1))

    def count(self) -> None:
        """Write the books as the speed layer would, of all that is archived; one commit ends there."""
        end = {"3": self.archive.position}
        commit = {
            "topic": "logs",
            "seq": 1,
            "token": "t",
            "topic_id": "id",
            "committed_at": datetime.now(UTC),
        }
        with self.database.begin() as connection:
            row = commit | {"start": {"3": 0}, "end": end, "tasks": [], "counts": {}}
            connection.execute(sa.insert(schema.commits).values(row))
            for task in (1, 2):
                own = {"topic": "logs", "task_id": task, "version": 1, "first_seq": 1}
                connection.execute(sa.insert(schema.task_ranges).values(own | {"start": {}}))
        days, tallied, _ = self.batch_layer()
        letters = self._dead()
        with self.database.begin() as connection:
            for day, lines in days:
                row = {"topic": "logs", "day": day, "partition": 3, "lines": lines, "last_offset": 0}
                connection.execute(sa.insert(schema.event_days).values(row))
            for day, task, version, *counts in tallied:
                row = {"topic": "logs", "layer": "online", "day": day, "task_id": task, "version": version}
                row |= dict(zip(COUNTS, counts, strict=True))
                connection.execute(sa.insert(schema.tallies).values(row))
            for offset, place, text in letters:
                row = {"topic": "logs", "partition": 3, "offset": offset, "line_in_record": place}
                row |= {"reason": "no event time", "bytes": len(text), "line": text}
                connection.execute(
                    sa.insert(schema.dead_letters).values(row | {"arrived_at": datetime.now(UTC)})
                )

    def end_commit(self) -> None:
        """Let the newest commit end where the archive ends; what came since was doubles."""
        with self.database.begin() as connection:
            connection.execute(sa.update(schema.commits).values(end={"3": self.archive.position}))

    def records(self) -> pa.Table:
        """All lines that somebody reads who asks the index."""
        files = [pq.ParquetFile(row.path).read().to_batches() for row in self.archive.rows()]
        return pa.Table.from_batches([as_records(batch, 3) for own in files for batch in own])

    def batch_layer(self) -> Sums:
        """What the batch layer makes of the archive: lines by day, tallies, dead letters."""
        days, found = [], []
        for day in DAYS:
            versions = task_versions(self.database, "logs", day)
            plan = EnginePlan.of(versions.tasks, LIMITS, TOPIC, versions.ranges)
            lines = pa.Table.from_batches(of_day(iter(self.records().to_batches()), DayOf("logs", day), plan))
            lines = lines.combine_chunks()
            first = np.unique(lines.column("src_offset").to_numpy(), return_index=True)[1]
            (unique,) = lines.take(pa.array(np.sort(first))).to_batches()
            alive = unique.filter(reasons(unique, LIMITS, PLACES.empty_table()).is_null())
            days.append((day, len(alive)))
            made = count(alive.select(LINE_SCHEMA.names), plan).tallies
            found += [tuple(row.values()) for row in tallies.rows(made.to_pylist())]
        return days, sorted(found), len(self._dead())

    def speed_layer(self) -> Sums:
        """What the books say that the speed layer counted; rows of zeros are left out."""
        event, tally = schema.event_days.c, schema.tallies.c
        with self.database.connect() as connection:
            days = connection.execute(sa.select(event.day, event.lines).order_by(event.day)).all()
            columns = (tally.day, tally.task_id, tally.version, *(tally[name] for name in COUNTS))
            rows = connection.execute(sa.select(*columns).where(tally.layer == "online")).all()
            letters = sa.select(sa.func.count()).select_from(schema.dead_letters)
            number = int(connection.scalar(letters) or 0)
        kept = sorted(tuple(row) for row in rows if any(row[3:]))
        return [tuple(row) for row in days], kept, number

    def _dead(self) -> list[tuple[int, int, bytes]]:
        """The places of first copies without a time, and their text."""
        found, seen = [], set[int]()
        for row in self.records().to_pylist():
            known = row["src_offset"] in seen
            seen.add(row["src_offset"])
            if not known and b"no" in row["line"]:
                found.append((row["offset"], row["line_in_record"], row["line"]))
        return found
