"""The book of the speed layer: one transaction and one row of `commits` a micro-batch.

Offsets are maps from the partition (as text) to an offset. A partition that is missing in a map did not exist
then, and its offset is 0. `append` is the fence: sequence numbers are 1, 2, 3 ..., and if two writers both
built on commit n, only one of them gets n + 1.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import date, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError, IntegrityError

from sluice.storage import schema
from sluice.storage.postgres import patiently

Offsets = Mapping[str, int]
Version = tuple[int, int]  # task id, version
PeriodKey = tuple[int, int, int]  # task id, version, period start (ms)

#: How long to wait for a PostgreSQL that is away: kill -9 and recovery take seconds.
PATIENCE_SECONDS = 120.0
ROWS_A_STATEMENT = 1_000
# A killed writer keeps its lock until PostgreSQL notices that its connection is closed.
CLAIM_SECONDS, CLAIM_POLL_SECONDS = 5.0, 0.2


class FencedOut(RuntimeError):
    """Another writer counts this topic, so this one must stop; uncommitted work does not count."""

    def __init__(self, topic: str, detail: str) -> None:
        super().__init__(
            f"another speed layer counts topic {topic!r} ({detail}): this one stops, and nothing it had not "
            "committed counts. See `sluice status` for the one that runs"
        )


class BlocksGone(RuntimeError):
    """Retention dropped blocks that a batch was built on, so the batch must not be committed."""

    def __init__(self, topic: str, rows: Sequence[str]) -> None:
        super().__init__(
            f"topic {topic!r}: retention dropped {len(rows)} blocks that this batch was built on, such as "
            f"{rows[0]}: it counts again at the next start"
        )


@dataclass(frozen=True)
class Head:
    """The newest commit of a topic."""

    seq: int
    token: str
    topic_id: str
    end: dict[str, int]
    committed_at: datetime


@dataclass(frozen=True)
class Pointer:
    """Where the newest committed version of one block of state is."""

    row: str
    task_id: int
    version: int
    period_start: int
    layout: int
    bucket: int
    seq: int
    token: str
    bytes: int

    @property
    def period(self) -> PeriodKey:
        return self.task_id, self.version, self.period_start

    @property
    def column(self) -> builtins.bytes:
        return column(self.seq, self.token)


def column(seq: int, token: str) -> bytes:
    """The column of `state` that the writer `token` wrote for commit `seq`."""
    return f"s:{seq:020d}.{token}".encode()


def column_seq(name: bytes) -> int:
    return int(name[2:22])


@dataclass(frozen=True)
class LedgerRow:
    """The byte intervals that were seen of one file, as little-endian int64."""

    host: str
    src_file: str
    starts: bytes
    ends: bytes


@dataclass(frozen=True)
class DayLines:
    """A partition's lines of one day of event time, and the last offset that held one of them."""

    day: date
    partition: int
    lines: int
    last_offset: int


@dataclass(frozen=True)
class Commit:
    """One micro-batch, as it is committed."""

    seq: int
    token: str
    topic_id: str
    committed_at: datetime
    start: Offsets
    end: Offsets
    tasks: Sequence[Version]
    counts: Mapping[str, int]
    blocks: Sequence[Pointer] = ()
    dropped: Sequence[str] = ()  # rows of `state` that a wider layout replaced
    built_on: Sequence[str] = ()  # rows that `blocks` continue or that are dropped: they must still exist
    ledger: Sequence[LedgerRow] = ()
    opened: Sequence[Version] = ()
    closed: Sequence[Version] = ()
    days: Sequence[DayLines] = ()
    dead_letters: Sequence[Mapping[str, Any]] = field(default=(), repr=False)


class CommitLog:
    """The commits of one topic.

    Reads and writes wait `patience` seconds for a PostgreSQL that is away.
    """

    def __init__(self, engine: sa.Engine, topic: str, patience: float = PATIENCE_SECONDS) -> None:
        self.engine = engine
        self.topic = topic
        self.patience = patience

    def head(self) -> Head | None:
        c = schema.commits.c
        query = (
            sa.select(c.seq, c.token, c.topic_id, c.end, c.committed_at)
            .where(c.topic == self.topic)
            .order_by(c.seq.desc())
            .limit(1)
        )
        for row in self._rows(query):
            return Head(row.seq, row.token, row.topic_id, dict(row.end), row.committed_at)
        return None

    def append(self, commit: Commit) -> None:
        """Commit the batch exactly once: if the answer to a COMMIT is lost, look up its outcome.

        Raises `FencedOut` if another writer has this sequence number, and `BlocksGone`.
        """

        def attempt() -> None:
            try:
                with self.engine.begin() as connection:
                    _write(connection, self.topic, commit)
            except IntegrityError as error:
                winner = self._token(commit.seq)
                if winner is None:
                    raise  # the violated key is not that of the commit's own row
                if winner != commit.token:
                    detail = f"commit {commit.seq} is that of writer {winner}, not of {commit.token}"
                    raise FencedOut(self.topic, detail) from error
                # An earlier attempt of ours succeeded although its answer never arrived.

        patiently(attempt, self.patience)

    def ledger(self) -> Iterator[LedgerRow]:
        t = schema.ledger.c
        query = sa.select(t.host, t.src_file, t.starts, t.ends).where(t.topic == self.topic)
        for row in self._rows(query):
            yield LedgerRow(row.host, row.src_file, bytes(row.starts), bytes(row.ends))

    def open_versions(self) -> set[Version]:
        """The task versions that the newest commit counted."""
        t = schema.task_ranges.c
        query = sa.select(t.task_id, t.version).where(t.topic == self.topic, t.end.is_(None))
        return {(row.task_id, row.version) for row in self._rows(query)}

    def pointers(self, periods: Iterable[PeriodKey]) -> list[Pointer]:
        """Every committed block of these periods."""
        t = schema.state_blocks.c
        key = sa.tuple_(t.task_id, t.version, t.period_start)
        found: list[Pointer] = []
        for some in _parts(sorted(periods)):
            found += self._pointers(key.in_(some))
        return found

    def pointers_at(self, rows: Iterable[str]) -> list[Pointer]:
        """The committed blocks at these rows; a row that a wider layout replaced has none."""
        found: list[Pointer] = []
        for some in _parts(sorted(set(rows))):
            found += self._pointers(schema.state_blocks.c.row.in_(some))
        return found

    def projected(self) -> int:
        """The last commit whose results are all in HBase; 0 before the first."""
        t = schema.projections.c
        for row in self._rows(sa.select(t.seq).where(t.topic == self.topic)):
            return int(row.seq)
        return 0

    def passed(self, cut: Offsets) -> bool:
        """Whether everything below the cut is committed and its results are in HBase.

        Commits beyond the cut do not matter: under traffic, the newest commits' results are always on their
        way.
        """
        if not any(cut.values()):
            return True
        c = schema.commits.c
        shown = sa.select(c.end).where(c.topic == self.topic, c.seq == self.projected())
        return any(
            all(row.end.get(partition, 0) >= offset for partition, offset in cut.items())
            for row in self._rows(shown)
        )

    def set_projected(self, seq: int) -> None:
        statement = insert(schema.projections).values(topic=self.topic, seq=seq)
        newer = sa.func.greatest(schema.projections.c.seq, statement.excluded.seq)
        self._execute(statement.on_conflict_do_update(index_elements=["topic"], set_={"seq": newer}))

    def rows_since(self, seq: int) -> list[str]:
        """The rows of `state` whose results may have changed by the commits after `seq`."""
        c = schema.commits.c
        query = sa.select(c.blocks).where(c.topic == self.topic, c.seq > seq)
        written = {name for row in self._rows(query) for name in row.blocks}
        return sorted({*written, *self.rows_reopened(seq)})

    def rows_reopened(self, seq: int) -> list[str]:
        """The older rows of versions that a commit after `seq` opened again.

        If a version was set aside because its results could not be made, it has state that was never
        projected.
        """
        b, r = schema.state_blocks.c, schema.task_ranges.c
        opened = sa.select(r.task_id, r.version).where(r.topic == self.topic, r.first_seq > seq)
        version = sa.tuple_(b.task_id, b.version)
        query = sa.select(b.row).where(b.topic == self.topic, b.seq <= seq, version.in_(opened))
        return sorted(row.row for row in self._rows(query))

    def _token(self, seq: int) -> str | None:
        c = schema.commits.c
        for row in self._rows(sa.select(c.token).where(c.topic == self.topic, c.seq == seq)):
            return str(row.token)
        return None

    def _pointers(self, condition: sa.ColumnElement[bool]) -> list[Pointer]:
        t = schema.state_blocks.c
        names = list(Pointer.__dataclass_fields__)
        query = sa.select(*(t[name] for name in names)).where(t.topic == self.topic, condition)
        return [Pointer(**row._mapping) for row in self._rows(query)]

    def _rows(self, query: sa.Select[Any]) -> Sequence[sa.Row[Any]]:
        def read() -> Sequence[sa.Row[Any]]:
            with self.engine.connect() as connection:
                return connection.execute(query).all()

        return patiently(read, self.patience)

    def _execute(self, statement: sa.Executable) -> None:
        def run() -> None:
            with self.engine.begin() as connection:
                connection.execute(statement)

        patiently(run, self.patience)


def _write(connection: sa.Connection, topic: str, commit: Commit) -> None:
    connection.execute(
        sa.insert(schema.commits).values(
            topic=topic,
            seq=commit.seq,
            token=commit.token,
            topic_id=commit.topic_id,
            committed_at=commit.committed_at,
            start=dict(commit.start),
            end=dict(commit.end),
            tasks=[list(version) for version in commit.tasks],
            counts=dict(commit.counts),
            blocks=[pointer.row for pointer in commit.blocks],
        )
    )
    _write_blocks(connection, topic, commit)
    _write_ranges(connection, topic, commit)
    files = [{**asdict(row), "last_seen": commit.committed_at} for row in commit.ledger]
    _upsert(connection, topic, schema.ledger, files)
    if commit.days:
        statement = insert(schema.event_days)
        mine, new = schema.event_days.c, statement.excluded
        statement = statement.on_conflict_do_update(
            index_elements=["topic", "day", "partition"],
            set_={
                "lines": mine.lines + new.lines,
                "last_offset": sa.func.greatest(mine.last_offset, new.last_offset),
            },
        )
        connection.execute(statement, [{"topic": topic, **asdict(day)} for day in commit.days])
    if commit.dead_letters:
        connection.execute(
            insert(schema.dead_letters).on_conflict_do_nothing(),
            [{"topic": topic, **letter} for letter in commit.dead_letters],
        )


def _write_blocks(connection: sa.Connection, topic: str, commit: Commit) -> None:
    t = schema.state_blocks
    for some in _parts(commit.built_on):
        query = sa.select(t.c.row).where(t.c.topic == topic, t.c.row.in_(some)).with_for_update()
        if gone := sorted(set(some).difference(connection.scalars(query))):
            raise BlocksGone(topic, gone)
    for some in _parts(commit.dropped):
        connection.execute(sa.delete(t).where(t.c.topic == topic, t.c.row.in_(some)))
    _upsert(connection, topic, t, [asdict(pointer) for pointer in commit.blocks])


def _write_ranges(connection: sa.Connection, topic: str, commit: Commit) -> None:
    t = schema.task_ranges
    for task_id, version in commit.closed:
        same = (t.c.task_id == task_id, t.c.version == version, t.c.topic == topic)
        connection.execute(sa.update(t).where(*same, t.c.end.is_(None)).values(end=dict(commit.start)))
    for task_id, version in commit.opened:
        connection.execute(
            sa.insert(t).values(
                task_id=task_id,
                version=version,
                first_seq=commit.seq,
                topic=topic,
                start=dict(commit.start),
            )
        )


def _upsert(connection: sa.Connection, topic: str, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    if not rows:
        return
    statement = insert(table)
    keys = [column.name for column in table.primary_key]
    changed = {name: statement.excluded[name] for name in rows[0] if name not in keys}
    statement = statement.on_conflict_do_update(index_elements=keys, set_=changed)
    connection.execute(statement, [{"topic": topic, **row} for row in rows])


class TopicClaim:
    """A lock on a topic, which lasts as long as its connection; it stops a second writer early.

    It only saves the second writer useless work. What keeps two writers from both counting is the primary key
    of the commits, because this lock is lost with the connection when PostgreSQL restarts.
    """

    def __init__(self, engine: sa.Engine, topic: str) -> None:
        self._engine = engine
        self._topic = topic
        self._connection: sa.Connection | None = None

    def take(self, seconds: float = CLAIM_SECONDS) -> None:
        """Take the lock. Raises FencedOut if another writer still has it after `seconds`."""
        connection = patiently(self._engine.connect, PATIENCE_SECONDS)
        self._connection = connection.execution_options(isolation_level="AUTOCOMMIT")
        self._connection.detach()  # so that closing it also closes the session, which frees the lock
        key = sa.func.hashtextextended("sluice speed layer " + self._topic, 0)
        deadline = time.monotonic() + seconds
        while not self._connection.scalar(sa.select(sa.func.pg_try_advisory_lock(key))):
            if time.monotonic() > deadline:
                self.release()
                raise FencedOut(self._topic, "it holds the topic's lock in PostgreSQL")
            time.sleep(CLAIM_POLL_SECONDS)

    def release(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(DBAPIError):  # PostgreSQL went away, and the lock with it
                connection.close()


def _parts(values: Sequence[Any]) -> Iterator[list[Any]]:
    for begin in range(0, len(values), ROWS_A_STATEMENT):
        yield list(values[begin : begin + ROWS_A_STATEMENT])
