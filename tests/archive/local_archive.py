"""A partition's archive on this machine, with its index in a database without a server."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from sluice.archive import indexing, layout
from sluice.archive.claim import Claims
from sluice.archive.file import ArchivedPartition, ArchiveFile, of_loss, of_records
from sluice.archive.verification import Verified, checked
from sluice.runtime.settings import Settings
from sluice.storage.stores import LocalStore
from sluice.storage.tables import schema
from sluice.transmission.line_schema import LINE_SCHEMA
from tests.tasks.database import sqlite

PLACE = ArchivedPartition("logs", "id", 3)
DAY_SECONDS = 86_400


def line(day: int, second: int = 0) -> bytes:
    return b'10.0.0.1 - - [%02d/May/2015:10:05:%02d +0000] "GET / HTTP/1.1" 200 17' % (day, second)


def batch(
    offsets: Sequence[int], lines: Sequence[bytes], places: Sequence[int] | None = None
) -> pa.RecordBatch:
    n = len(offsets)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.full(n, 3, np.int32)),
            pa.array(offsets, pa.int64()),
            pa.array([1_700_000_000_000 + o for o in offsets], pa.int64()),
            pa.array(["web1"] * n),
            pa.array(["access.2015-05-17.log"] * n),
            pa.array([o * 100 for o in offsets], pa.int64()),
            pa.array(lines, pa.binary()),
            pa.array([True] * n),
            pa.array(places or [0] * n, pa.int32()),
            pa.nulls(n, pa.string()),
            pa.nulls(n, pa.int64()),
        ],
        schema=LINE_SCHEMA,
    )


class Killed(BaseException):
    """The process died here (the fixture `dies`)."""


@dataclass
class LocalArchive:
    """A partition of a topic; its files were written days ago."""

    folder: Path
    database: sa.Engine = field(default_factory=sqlite)
    position: int = 0

    @property
    def settings(self) -> Settings:
        found = Settings()
        return found.model_copy(update={"hdfs": found.hdfs.model_copy(update={"raw": str(self.folder)})})

    @property
    def directory(self) -> str:
        return layout.partition_directory(self.settings, PLACE.topic, PLACE.topic_id, PLACE.partition)

    def claims(self) -> Claims:
        return Claims(LocalStore(), self.directory)

    def add(self, records: int, day: int = 17) -> None:
        """Archive that many records of two lines, in one file."""
        offsets = [self.position + n // 2 for n in range(2 * records)]
        lines = [line(day + n % 2, n % 60) for n in range(2 * records)]
        self.publish(of_records(PLACE, self.position, [batch(offsets, lines, [0, 1] * records)], 1))

    def lose(self, records: int) -> None:
        self.publish(of_loss(PLACE, self.position, self.position + records, "lost by a test", 1))

    def publish(self, made: ArchiveFile) -> None:
        claims = self.claims()
        footer, length = claims.publish(made)
        indexing.add(self.database, [(footer, length, claims.named(footer.name))])
        self.position = footer.next
        self.age()

    def age(self, days: float = 3) -> None:
        """Let all files be older by that."""
        for path in Path(self.directory).iterdir():
            os.utime(path, (path.stat().st_atime, path.stat().st_mtime - days * DAY_SECONDS))

    def pass_time(self) -> None:
        """Let all rows of the index be older than readers need replaced files."""
        long_ago = sa.text("'2020-01-01 00:00:00'")
        with self.database.begin() as connection:
            connection.execute(sa.update(schema.archive_files).values(indexed_at=long_ago))

    def names(self) -> list[str]:
        return sorted(path.name for path in Path(self.directory).iterdir())

    def standing(self) -> list[str]:
        return [file.name for file in self.claims().files()]

    def rows(self) -> list[Any]:
        files = schema.archive_files
        with self.database.connect() as connection:
            return list(connection.execute(sa.select(files).order_by(files.c.first)))

    def indexed(self) -> list[str]:
        return [layout.name_in(row.path) for row in self.rows()]

    def lines_of_files(self) -> list[tuple[Any, ...]]:
        """What somebody reads who lists the directory."""
        return _lines(self.claims().named(file.name) for file in self.claims().files())

    def lines_of_index(self) -> list[tuple[Any, ...]]:
        """What somebody reads who asks the index."""
        return _lines(row.path for row in self.rows())

    def verified(self) -> Verified:
        return checked(self.database, PLACE, self.claims(), deep=True)


def _lines(paths: Iterable[str]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for path in paths:
        found += [tuple(row.values()) for row in pq.ParquetFile(path).read().to_pylist()]
    return found
