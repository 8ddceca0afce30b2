"""A front-end with a log file, an edge that has read it, and what both layers have of it; without daemons."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from sluice.archive.file import COLUMNS
from sluice.collection.agent import AGENT_FILE, Agent, folder
from sluice.collection.hosting import machine_of
from sluice.runtime.settings import Settings
from sluice.storage.tables import schema

TOPIC = "logs"
NAME = "log/access.2026-01-05.log"


def no_hdfs(settings: Settings) -> Settings:
    """The archive's files lie on this machine's disk."""
    return settings.model_copy(update={"hdfs": settings.hdfs.model_copy(update={"namenode": ""})})


@dataclass
class FrontEnd:
    """One front-end of an instance, and the layers' tables."""

    settings: Settings
    database: sa.Engine
    host: str = "web1"
    name: str = NAME
    seq: int = 0
    files: int = 0
    orders: list[dict[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        patterns = (f"{{home}}/{Path(self.name).parent}/access.%Y-%m-%d.log",)
        # Nothing answers at port 1: an agent that does not run holds nothing up.
        agent = Agent(self.host, "edge", TOPIC, "memory", 1_000, 1, files=patterns, max_line=1_000)
        where = folder(self.settings, self.host)
        where.mkdir(parents=True, exist_ok=True)
        (where / AGENT_FILE).write_text(agent.to_json())
        self.agent = agent

    @property
    def path(self) -> Path:
        return self.settings.home / self.name

    def write(self, lines: int, length: int = 9) -> None:
        """Write that many lines of so many bytes, newlines included."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as out:
            out.write(b"".join(b"%0*d\n" % (length - 1, n) for n in range(lines)))

    def read(self, to: int | None = None) -> None:
        """The edge has read the file up to there, or to its end."""
        status = os.stat(self.path)
        entry = {"inode": status.st_ino, "pos": status.st_size if to is None else to, "file": str(self.path)}
        (folder(self.settings, self.host) / "position.json").write_text(json.dumps([entry]))

    def counted(self, *spans: tuple[int, int], name: str = "", topic: str = TOPIC) -> None:
        """The topic's byte ledger has these stretches."""
        starts, ends = (np.array([each[n] for each in spans], "<i8").tobytes() for n in (0, 1))
        own = {"topic": topic, "host": self.host, "src_file": name or self.name}
        with self.database.begin() as connection:
            t = schema.ledger
            connection.execute(sa.delete(t).filter_by(**own))
            connection.execute(sa.insert(t).values(**own, starts=starts, ends=ends))

    def committed(self, position: int) -> None:
        """The speed layer has counted partition 0 up to there."""
        self.seq += 1
        row = {"topic": TOPIC, "seq": self.seq, "token": "t", "start": {}, "tasks": [], "counts": {}}
        with self.database.begin() as connection:
            connection.execute(sa.insert(schema.commits).values(**row, end={"0": position}))

    def archived(
        self, first: int, following: int, starts: list[int], *, arrival: int, days: str = ""
    ) -> None:
        """The archive has a file with lines of nine bytes that begin at these places."""
        self.files += 1
        path = self.settings.home / f"{self.files}.parquet"
        empty = {one.name: pa.nulls(len(starts), one.type) for one in COLUMNS}
        table = pa.table(
            {
                **empty,
                "offset": pa.array(range(first, first + len(starts)), pa.int64()),
                "arrival": pa.array([arrival] * len(starts), pa.int64()),
                "host": [self.host] * len(starts),
                "src_file": [self.name] * len(starts),
                "src_offset": pa.array(starts, pa.int64()),
                "line": [b"x" * 8] * len(starts),
            }
        )
        pq.write_table(table, path)
        row = {"topic": TOPIC, "topic_id": "id", "partition": 0, "first": first, "next": following}
        row |= {"records": len(starts), "lines": len(starts), "bytes": path.stat().st_size, "generation": 1}
        row |= {"arrival_min": arrival, "arrival_max": arrival, "unparsed": 0, "path": str(path)}
        with self.database.begin() as connection:
            made = sa.insert(schema.archive_files).values(**row, days={days: len(starts)} if days else {})
            connection.execute(made)

    def lost(self, era: int, begins: int, reached: int, epoch: int = 1) -> None:
        """Kafka lost what had been read from an offset on."""
        row = {"topic": TOPIC, "partition": 0, "topic_id": "id", "era": era, "begins": begins}
        with self.database.begin() as connection:
            connection.execute(sa.insert(schema.log_eras).values(**row, epoch=epoch, reached=reached))

    def send_again(
        self, settings: Settings, to: Mapping[str, Mapping[str, int]], log: object
    ) -> dict[str, str]:
        """In place of `deploy.send_again`: the edge is no process here; its positions go back."""
        if self.host in to:
            self.orders.append(dict(to[self.host]))
            machine_of(settings, self.agent).rewind(self.agent, to[self.host])
        return {}
