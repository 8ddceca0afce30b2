"""The hop table: where the lines of a topic are, from the front-ends' files to Hive.

What the platform *says* it counted (commits, event days, dead letters, the archive's index, Hive) is held
against what it must have counted: the lines that stand in the files, and the byte ledger, which has for each
file the bytes whose lines were counted. A line whose first byte the ledger lacks, although everything is read
and drained, is lost. Flume's own counters play no part: they restart, and they count retries.

Once nothing is in flight these hold (`Hops.disagreements` names those that do not):

    lines_read = online + dead_lettered + lost
    kafka      = lines_read - lost + doubled
    archived   = kafka - expired before they were archived
    hive_raw   = archived
    hive_unique = online, summed over the days that the batch layer has computed
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from sluice.runtime.arrays import Ints
from sluice.runtime.settings import Settings
from sluice.storage import schema

NOTHING: Ints = np.empty(0, np.int64)
CHUNK_BYTES = 32 << 20
NEWLINE = 10


@dataclass(frozen=True)
class FileAccount:
    """One front-end file against its ledger."""

    host: str
    src_file: str
    lines: int  # complete lines in the file
    bytes: int  # of these, newlines included
    missing_lines: int  # whose first byte the ledger lacks
    missing_bytes: int
    holes: tuple[tuple[int, int], ...] = ()  # the missing lines' stretches of bytes, the first of them


@dataclass(frozen=True)
class Hops:
    """Counts of lines at each hop of a topic, what is still on its way, and what does not add up."""

    topic: str
    lines_read: int
    kafka: int
    doubled: int
    online: int
    archived: int
    hive_raw: int
    hive_unique: int
    dead_lettered: int
    lost: int
    in_flight: tuple[str, ...] = ()
    disagreements: tuple[str, ...] = ()
    files: tuple[FileAccount, ...] = ()
    gone: tuple[str, ...] = ()  # files that the ledger knows and the front-ends no longer have

    COUNTS = (
        "lines_read", "kafka", "doubled", "online", "archived",
        "hive_raw", "hive_unique", "dead_lettered", "lost",
    )  # fmt: skip

    @property
    def ok(self) -> bool:
        return not self.lost and not self.disagreements

    def counts(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.COUNTS}


@dataclass
class _Booked:
    """What the transactional tables say about a topic."""

    records: int = 0
    doubled: int = 0
    counted: int = 0
    dead: int = 0
    event_lines: int = 0
    dead_rows: int = 0
    archived: int = 0
    expired: int = 0
    last_seq: int = 0
    projected: int = 0
    committed: dict[int, int] = field(default_factory=dict)
    archived_to: dict[int, int] = field(default_factory=dict)
    stale_days: list[str] = field(default_factory=list)
    computed_lines: int = 0
    forgotten: int = 0  # files that retention took out of the ledger
    ledger: dict[tuple[str, str], tuple[Ints, Ints]] = field(default_factory=dict)


def audit(settings: Settings, topic: str, *, hive: bool = True) -> Hops:
    """Count every hop of a topic now. Without `hive`, Hive's two counts are what the books say.

    Reads every front-end file once, at disk speed. While lines are moving the hops are read one after another
    and cannot agree: then `in_flight` says what moves, and nothing is called lost.
    """
    from sluice.storage.postgres import engine

    moving = _collecting(settings)
    files = dict(front_end_files(settings, topic))
    ends = kafka_ends(settings, topic)
    with engine(settings).connect() as connection:
        booked = _booked(connection, topic)
    accounts = tuple(
        account(path, *key, *booked.ledger.get(key, (NOTHING, NOTHING))) for key, path in files.items()
    )
    hive_raw, hive_unique = _hive(settings, topic) if hive else (booked.archived, booked.computed_lines)
    return reckon(
        topic, booked=booked, kafka_end=ends, accounts=accounts, moving=moving,
        hive_raw=hive_raw, hive_unique=hive_unique,
    )  # fmt: skip


def reckon(
    topic: str,
    *,
    booked: _Booked,
    kafka_end: Mapping[int, int],
    accounts: tuple[FileAccount, ...],
    moving: list[str],
    hive_raw: int,
    hive_unique: int,
) -> Hops:
    """The hops and what disagrees, from what was read; pure."""
    lines_read = sum(a.lines for a in accounts)
    missing = sum(a.missing_lines for a in accounts)
    kafka = sum(kafka_end.values())
    speed_lag = sum(max(0, end - booked.committed.get(p, 0)) for p, end in kafka_end.items())
    archive_lag = sum(max(0, end - booked.archived_to.get(p, 0)) for p, end in kafka_end.items())
    known = {(a.host, a.src_file) for a in accounts}
    gone = tuple(f"{host}:{name}" for host, name in sorted(booked.ledger) if (host, name) not in known)

    in_flight = list(moving)
    if speed_lag:
        in_flight.append(f"{speed_lag:,} records in Kafka that the speed layer has not committed")
    if booked.projected < booked.last_seq:
        in_flight.append(f"{booked.last_seq - booked.projected} commits whose results are not yet in HBase")
    arriving = bool(moving or speed_lag)
    if missing and arriving:
        in_flight.append(f"{missing:,} lines in the files that are not yet in the ledger")
    if archive_lag:
        in_flight.append(f"{archive_lag:,} records in Kafka that are not yet archived")
    if booked.stale_days:
        in_flight.append(
            f"{len(booked.stale_days)} days to compute in nightly_batch: {_some(booked.stale_days)}"
        )
    lost = 0 if arriving else missing

    wrong = []

    def equal(left: str, a: int, right: str, b: int) -> None:
        if a != b:
            wrong.append(f"{left} {a:,} != {right} {b:,}")

    equal("records that were committed", booked.records, "doubled + online + dead_lettered",
          booked.doubled + booked.counted + booked.dead)  # fmt: skip
    equal("online", booked.counted, "lines of all event days", booked.event_lines)
    equal("dead_lettered", booked.dead, "rows of dead_letters", booked.dead_rows)
    if not arriving and not gone and not booked.forgotten:
        equal("lines_read", lines_read, "online + dead_lettered + lost", booked.counted + booked.dead + lost)
        equal("kafka", kafka, "lines_read - lost + doubled", lines_read - lost + booked.doubled)
    if not archive_lag:
        equal("archived", booked.archived, "kafka - expired", kafka - booked.expired)
        equal("hive_raw", hive_raw, "archived", booked.archived)
    if not speed_lag and not booked.stale_days:
        equal("hive_unique", hive_unique, "online", booked.counted)
    return Hops(
        topic=topic, lines_read=lines_read, kafka=kafka, doubled=booked.doubled, online=booked.counted,
        archived=booked.archived, hive_raw=hive_raw, hive_unique=hive_unique, dead_lettered=booked.dead,
        lost=lost, in_flight=tuple(in_flight), disagreements=tuple(wrong), files=accounts, gone=gone,
    )  # fmt: skip


def account(path: Path, host: str, src_file: str, starts: Ints, ends: Ints) -> FileAccount:
    """Hold a file's lines against the ledger's intervals [starts, ends); both sorted and disjoint.

    A line is missing when its *first byte* is in no interval. A line over 16 MiB, which Flume's agents cut,
    leaves a hole behind its beginning and was yet taken.
    """
    lines = size = missing_lines = missing_bytes = 0
    holes: list[tuple[int, int]] = []
    for begin, end in line_spans(path):
        lines += len(begin)
        size = int(end[-1])
        before = np.searchsorted(starts, begin, side="right") - 1
        seen = (
            (before >= 0) & (begin < np.take(ends, before, mode="clip"))
            if len(starts)
            else np.zeros(len(begin), bool)
        )
        missing = np.flatnonzero(~seen)
        missing_lines += len(missing)
        missing_bytes += int((end[missing] - begin[missing]).sum())
        for i in missing[:100]:
            if holes and holes[-1][1] == begin[i]:
                holes[-1] = (holes[-1][0], int(end[i]))
            else:
                holes.append((int(begin[i]), int(end[i])))
    return FileAccount(host, src_file, lines, size, missing_lines, missing_bytes, tuple(holes[:20]))


def line_spans(path: Path) -> Iterator[tuple[Ints, Ints]]:
    """The complete lines of a file, chunk by chunk: where each begins, and where the next one would.

    A last line without its newline is not complete: its writer may not be done with it.
    """
    start = offset = 0  # of the first line that is not yet complete; of the chunk
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            newlines = np.flatnonzero(np.frombuffer(chunk, np.uint8) == NEWLINE).astype(np.int64)
            if len(newlines):
                end = newlines + (offset + 1)
                yield np.concatenate((np.array([start], np.int64), end[:-1])), end
                start = int(end[-1])
            offset += len(chunk)


def front_end_files(settings: Settings, topic: str) -> Iterator[tuple[tuple[str, str], Path]]:
    """The log files that the inventory assigns to a topic: ((host, name in the records), path)."""
    from sluice.collection import inventory, position
    from sluice.collection.pattern import Pattern

    collected = inventory.load(settings)
    if collected.topic != topic:
        return
    for front_end in collected.front_ends:
        for text in front_end.files:
            for path in Pattern.parse(text, settings.home).files():
                yield (front_end.host, position.identity(path, settings.home)), path


def kafka_ends(settings: Settings, topic: str) -> dict[int, int]:
    """How many records each partition was ever given: its end offset, for nothing here is transactional."""
    from sluice.transmission.topics import TopicMissing, Topics

    with Topics(settings) as topics:
        try:
            return {p: topics.bounds(topic, p)[1] for p in topics.describe(topic).partitions}
        except TopicMissing:
            return {}


def _collecting(settings: Settings) -> list[str]:
    from sluice.collection import deploy

    return [] if deploy.drained(settings) else ["lines in the front-ends' files or in the agents' channels"]


def _booked(connection: sa.Connection, topic: str) -> _Booked:
    booked = _Booked()
    _book_commits(connection, topic, booked)
    booked.projected = _scalar(
        connection, sa.select(schema.projections.c.seq).where(schema.projections.c.topic == topic)
    )
    booked.dead_rows = _scalar(
        connection, sa.select(sa.func.count()).where(schema.dead_letters.c.topic == topic)
    )
    _book_pruned(connection, topic, booked)
    files, losses = schema.archive_files.c, schema.archive_losses.c
    for row in connection.execute(
        sa.select(files.partition, sa.func.sum(files.records), sa.func.max(files.next))
        .where(files.topic == topic)
        .group_by(files.partition)
    ):
        booked.archived += int(row[1])
        booked.archived_to[row[0]] = int(row[2])
    booked.expired = _scalar(
        connection, sa.select(sa.func.sum(losses.next - losses.first)).where(losses.topic == topic)
    )
    _book_days(connection, topic, booked)
    for row in connection.execute(sa.select(schema.ledger).where(schema.ledger.c.topic == topic)):
        booked.ledger[row.host, row.src_file] = (
            np.frombuffer(row.starts, "<i8").astype(np.int64),
            np.frombuffer(row.ends, "<i8").astype(np.int64),
        )
    return booked


def _book_commits(connection: sa.Connection, topic: str, booked: _Booked) -> None:
    """What all commits counted, and how far the newest is; there is one a second, so PostgreSQL adds up."""
    commits = schema.commits.c
    names = ("records", "doubled", "counted", "dead")
    sums = (sa.func.coalesce(sa.func.sum(commits.counts[name].as_integer()), 0).label(name) for name in names)
    counts = connection.execute(sa.select(*sums).where(commits.topic == topic)).one()
    for name in names:
        setattr(booked, name, int(counts._mapping[name]))
    newest = sa.select(commits.seq, commits.end).where(commits.topic == topic)
    for row in connection.execute(newest.order_by(commits.seq.desc()).limit(1)):
        booked.last_seq = row.seq
        booked.committed = {int(partition): int(offset) for partition, offset in row.end.items()}


def _book_pruned(connection: sa.Connection, topic: str, booked: _Booked) -> None:
    """Add what the rows counted that retention deleted."""
    for row in connection.execute(sa.select(schema.pruned).where(schema.pruned.c.topic == topic)):
        for name in ("records", "doubled", "counted", "dead"):
            setattr(booked, name, getattr(booked, name) + row._mapping[name])
        booked.dead_rows += row.dead_letters
        booked.forgotten = row.files


def _book_days(connection: sa.Connection, topic: str, booked: _Booked) -> None:
    """Lines by event day, and the days that the batch layer has not computed up to their last line."""
    days = schema.days.c
    computed: dict[Any, Any] = {}
    for done in connection.execute(sa.select(days.day, days.cut, days.lines).where(days.topic == topic)):
        computed[done.day] = done.cut
        booked.computed_lines += done.lines
    event = schema.event_days.c
    rows = connection.execute(
        sa.select(event.day, event.partition, event.lines, event.last_offset)
        .where(event.topic == topic)
        .order_by(event.day)
    )
    for day, group in itertools.groupby(rows, key=lambda row: row.day):
        cut = computed.get(day)
        stale = cut is None
        for row in group:
            booked.event_lines += row.lines
            stale = stale or row.last_offset >= int((cut or {}).get(str(row.partition), 0))
        if stale:
            booked.stale_days.append(day.isoformat())


def _hive(settings: Settings, topic: str) -> tuple[int, int]:
    from sluice.storage.hive import Hive

    with Hive(settings) as hive:

        def rows(table: str) -> int:
            where = {"topic": topic}
            return int(hive.query(f"SELECT count(*) FROM {table} WHERE topic = %(topic)s", where).scalar())  # noqa: S608

        return rows("raw"), rows("logs")


def _scalar(connection: sa.Connection, statement: sa.Select[Any]) -> int:
    return int(connection.execute(statement).scalar() or 0)


def _some(names: list[str], most: int = 4) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
