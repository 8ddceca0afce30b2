"""The book of the speed layer: one transaction and one row of `commits` a micro-batch.

Offsets are maps from the partition (as text) to an offset. A partition that is missing in a map did not exist
then, and its offset is 0. `append` is the fence: sequence numbers are 1, 2, 3 ..., and if two writers both
built on commit n, only one of them gets n + 1. Old numbers have no row any more (`tables.folding`), so a
commit must also be newer than all others.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from functools import partial
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.exc import DBAPIError, IntegrityError

from sluice.runtime.crash_points import crash_point
from sluice.storage.postgres import patiently
from sluice.storage.tables import eras, schema, tallies
from sluice.storage.tables.epochs import CommittedColumns, Epochs, PeriodKey, Snapshot, StatePeriod

Offsets = Mapping[str, int]
Version = tuple[int, int]  # task id, version

#: How long to wait for a PostgreSQL that is away: kill -9 and recovery take seconds.
PATIENCE_SECONDS = 120.0
ROWS_A_STATEMENT = 1_000
#: What the stored counts of a commit call the lines that came. None of them counts Kafka's records.
STORED_AS = {"lines": "records"}
# A killed writer keeps its lock until PostgreSQL notices that its connection is closed.
CLAIM_SECONDS, CLAIM_POLL_SECONDS = 5.0, 0.2
# It notices that at once, unless the whole host was lost: then after 30 s, by these settings of the session.
NOTICE_THE_DEAD = (
    "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 4"
)


class FencedOut(RuntimeError):
    """Another writer counts this topic, so this one must stop; uncommitted work does not count."""

    def __init__(self, topic: str, detail: str) -> None:
        super().__init__(
            f"another speed layer counts topic {topic!r} ({detail}): this one stops, and nothing it had not "
            "committed counts. See `sluice status` for the one that runs"
        )


class PeriodsGone(RuntimeError):
    """Periods whose state a batch was built on have none any more, so the batch must not be committed."""

    def __init__(self, topic: str, periods: Sequence[PeriodKey]) -> None:
        task_id, version, start = periods[0]
        self.periods = tuple(periods)
        super().__init__(
            f"topic {topic!r}: retention dropped {len(periods)} periods that this batch was built on, or a "
            f"rebuild took them, such as that of {task_id}v{version} from {start}: it is counted again"
        )


@dataclass(frozen=True)
class CommitHead:
    """A commit of a topic, usually the newest."""

    seq: int
    token: str
    topic_id: str
    end: dict[str, int]
    committed_at: datetime


@dataclass(frozen=True)
class Changed:
    """What is to be projected: periods as of a commit, and the versions all of whose series are."""

    snapshot: Snapshot
    reopened: Set[Version]


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
    #: Lines that came, doubled, counted, dead; bytes. A recovery has `redacted`, too: lines that were erased,
    #: which are not among those that came.
    counts: Mapping[str, int]
    #: The periods that it changed, as they are after it. Those that began before it must still exist.
    periods: Sequence[StatePeriod] = ()
    ledger: Sequence[LedgerRow] = ()
    opened: Sequence[Version] = ()
    closed: Sequence[Version] = ()
    days: Sequence[DayLines] = ()
    dead_letters: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    tallies: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    skipped: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    #: The era and epoch at which each partition's log was read (`eras.hold`).
    read_at: Mapping[int, tuple[int, int]] = field(default_factory=dict)


class CommitLog:
    """The commits of one topic.

    Reads and writes wait `patience` seconds for a PostgreSQL that is away.
    """

    def __init__(self, engine: sa.Engine, topic: str, patience: float = PATIENCE_SECONDS) -> None:
        self.engine = engine
        self.topic = topic
        self.patience = patience

    def head(self, seq: int | None = None) -> CommitHead | None:
        """The newest commit; with `seq` that one, or the one that it is folded into (`tables.folding`).

        None before the first commit. A number that is not there yet is as good as the newest.
        """
        c = schema.commits.c
        query = sa.select(c.seq, c.token, c.topic_id, c.end, c.committed_at).where(c.topic == self.topic)
        query = query.order_by(c.seq.desc()) if seq is None else query.where(c.seq >= seq).order_by(c.seq)
        for row in self._rows(query.limit(1)) if seq is None or seq > 0 else ():
            return CommitHead(row.seq, row.token, row.topic_id, dict(row.end), row.committed_at)
        return self.head() if seq else None

    def newest(self) -> int:
        """The number of the newest commit; 0 before the first."""
        c = schema.commits.c
        (row,) = self._rows(sa.select(sa.func.max(c.seq).label("seq")).where(c.topic == self.topic))
        return row.seq or 0

    def append(self, commit: Commit) -> None:
        """Commit the batch exactly once: if the answer to a COMMIT is lost, look up its outcome.

        Raises `FencedOut` if another writer has this sequence number, `PeriodsGone`, and `LogMoved`.
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

    def sampled(self) -> dict[tuple[int, int, str, date], int]:
        """How many samples of skipped lines there are, by task id, version, kind and day."""

        def read() -> dict[tuple[int, int, str, date], int]:
            with self.engine.connect() as connection:
                return tallies.sampled(connection, self.topic)

        return patiently(read, self.patience)

    def open_versions(self) -> set[Version]:
        """The task versions that the newest commit counted."""
        t = schema.task_ranges.c
        query = sa.select(t.task_id, t.version).where(t.topic == self.topic, t.end.is_(None))
        return {(row.task_id, row.version) for row in self._rows(query)}

    def periods(self, wanted: Iterable[PeriodKey]) -> dict[PeriodKey, StatePeriod]:
        """Those of these periods that have state."""
        found: dict[PeriodKey, StatePeriod] = {}
        for some in _parts(sorted(wanted)):
            found |= patiently(partial(self._read, _these(some)), self.patience)
        return found

    def snapshot(self, wanted: Iterable[PeriodKey]) -> Snapshot:
        """The newest commit, and those of these periods that have state as of it."""

        def read() -> Snapshot:
            with self._consistent() as connection:
                found: dict[PeriodKey, StatePeriod] = {}
                for some in _parts(keys):
                    found |= _periods(connection, self.topic, _these(some))
                return self._snapshot(connection, found)

        keys = sorted(wanted)
        return patiently(read, self.patience)

    def changed_since(self, seq: int) -> Changed:
        """The newest commit, and the periods whose results may have changed by the commits after `seq`.

        A version may have state that was never projected: it was set aside because its results could not be
        made. So all its periods count if a commit after `seq` opened it again.
        """
        t, r = schema.state_periods.c, schema.task_ranges.c
        opened = sa.select(r.task_id, r.version).where(r.topic == self.topic, r.first_seq > seq)

        def read() -> Changed:
            with self._consistent() as connection:
                versions = {(row.task_id, row.version) for row in connection.execute(opened)}
                found = _periods(connection, self.topic, t.seq > seq)
                if versions:
                    version = sa.tuple_(t.task_id, t.version)
                    found |= _periods(connection, self.topic, version.in_(sorted(versions)))
                return Changed(self._snapshot(connection, found), versions)

        return patiently(read, self.patience)

    def epochs(self) -> Epochs:
        """The epochs of all commits that any period's state is of."""

        def read() -> Epochs:
            with self.engine.connect() as connection:
                return _epochs(connection, self.topic, 0)

        return patiently(read, self.patience)

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

    def _token(self, seq: int) -> str | None:
        c = schema.commits.c
        for row in self._rows(sa.select(c.token).where(c.topic == self.topic, c.seq == seq)):
            return str(row.token)
        return None

    def _snapshot(self, connection: sa.Connection, periods: Mapping[PeriodKey, StatePeriod]) -> Snapshot:
        c = schema.commits.c
        newest = sa.select(c.seq, c.committed_at).where(c.topic == self.topic).order_by(c.seq.desc()).limit(1)
        head = connection.execute(newest).one_or_none()
        seq, at = (head.seq, head.committed_at) if head else (0, datetime.fromtimestamp(0, UTC))
        since = min((period.since for period in periods.values()), default=seq)
        return Snapshot(CommittedColumns(seq, _epochs(connection, self.topic, since)), at, periods)

    def _read(self, condition: sa.ColumnElement[bool]) -> dict[PeriodKey, StatePeriod]:
        with self.engine.connect() as connection:
            return _periods(connection, self.topic, condition)

    @contextmanager
    def _consistent(self) -> Iterator[sa.Connection]:
        """A connection whose queries all see the database as of the first one."""
        with self.engine.connect() as connection:
            yield connection.execution_options(isolation_level="REPEATABLE READ")

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
    if commit.read_at:
        eras.hold(connection, topic, commit.read_at)
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
            counts={STORED_AS.get(name, name): number for name, number in commit.counts.items()},
        )
    )
    _check_newest(connection, topic, commit.seq)
    _write_periods(connection, topic, commit)
    _write_epoch(connection, topic, commit)
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
    tallies.add(connection, topic, commit.tallies)
    tallies.add_samples(connection, topic, commit.skipped)


def _check_newest(connection: sa.Connection, topic: str, seq: int) -> None:
    """Raise FencedOut if there are later commits: this one's number was taken, and its row is folded."""
    c = schema.commits.c
    newest = connection.scalar(sa.select(sa.func.max(c.seq)).where(c.topic == topic)) or 0
    if newest > seq:
        raise FencedOut(topic, f"commit {seq} was made by another writer, which is at {newest} now")


def _write_periods(connection: sa.Connection, topic: str, commit: Commit) -> None:
    t = schema.state_periods
    built_on = {period.key: period.since for period in commit.periods if period.since < commit.seq}
    columns = (t.c.task_id, t.c.version, t.c.period_start, t.c.since)
    for some in _parts(sorted((*key, since) for key, since in built_on.items())):
        query = sa.select(*columns).where(t.c.topic == topic, _among(columns, some)).with_for_update()
        there = {tuple(row) for row in connection.execute(query)}
        if gone := [each[:3] for each in some if each not in there]:
            raise PeriodsGone(topic, gone)
    _upsert(connection, topic, t, [asdict(period) for period in commit.periods])


def _write_epoch(connection: sa.Connection, topic: str, commit: Commit) -> None:
    t = schema.epochs
    newest = sa.select(t.c.token).where(t.c.topic == topic).order_by(t.c.first_seq.desc()).limit(1)
    if connection.scalar(newest) != commit.token:
        connection.execute(sa.insert(t).values(topic=topic, first_seq=commit.seq, token=commit.token))


def _these(keys: Sequence[PeriodKey]) -> sa.ColumnElement[bool]:
    t = schema.state_periods.c
    return _among((t.task_id, t.version, t.period_start), keys)


def _among(columns: Sequence[sa.Column[Any]], keys: Sequence[tuple[int, ...]]) -> sa.ColumnElement[bool]:
    """Whether these columns are those of a key.

    The keys are arrays, and the plan looks each of them up. If they were a list, the plan would have an
    alternative for each, and would take longer to make than to carry out.
    """
    values = zip(*keys, strict=True)
    arrays = [sa.cast(list(own), ARRAY(column.type)) for column, own in zip(columns, values, strict=True)]
    names = [sa.column(column.name, column.type) for column in columns]
    wanted = sa.func.unnest(*arrays).table_valued(*names).render_derived(name="wanted")
    return sa.tuple_(*columns).in_(sa.select(*wanted.c))


def _periods(
    connection: sa.Connection, topic: str, condition: sa.ColumnElement[bool]
) -> dict[PeriodKey, StatePeriod]:
    t = schema.state_periods.c
    names = list(StatePeriod.__dataclass_fields__)
    query = sa.select(*(t[name] for name in names)).where(t.topic == topic, condition)
    found = (StatePeriod(**row._mapping) for row in connection.execute(query))
    return {period.key: period for period in found}


def _epochs(connection: sa.Connection, topic: str, since: int) -> Epochs:
    """The epochs of the commits from `since` on. Each start of a writer begins one."""
    t = schema.epochs.c
    first = sa.select(sa.func.max(t.first_seq)).where(t.topic == topic, t.first_seq <= since)
    from_first = t.first_seq >= sa.func.coalesce(first.scalar_subquery(), 0)
    query = sa.select(t.first_seq, t.token).where(t.topic == topic, from_first)
    return Epochs.of((row.first_seq, row.token) for row in connection.execute(query))


def _write_ranges(connection: sa.Connection, topic: str, commit: Commit) -> None:
    t = schema.task_ranges
    for task_id, version in commit.closed:
        same = (t.c.task_id == task_id, t.c.version == version, t.c.topic == topic)
        over = sa.update(t).where(*same, t.c.end.is_(None))
        connection.execute(over.values(end=dict(commit.start), end_seq=commit.seq))
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
    of the commits, because this lock is lost with the connection when PostgreSQL restarts. Where several
    drivers share the topics, the lock is also what a driver waits for that gets a topic from another, and the
    topic's row says who has it.
    """

    def __init__(self, engine: sa.Engine, topic: str, driver: str) -> None:
        self._engine = engine
        self._topic = topic
        self._driver = driver
        self._connection: sa.Connection | None = None

    def take(self, seconds: float = CLAIM_SECONDS) -> None:
        """Take the lock. Raises FencedOut if another writer still has it after `seconds`."""
        connection = patiently(self._engine.connect, PATIENCE_SECONDS)
        connection = connection.execution_options(isolation_level="AUTOCOMMIT")
        connection.detach()  # so that closing it also closes the session, which frees the lock
        try:
            connection.execute(sa.text(NOTICE_THE_DEAD))
            self._lock(connection, time.monotonic() + seconds)
            crash_point("topic_locked")
            self._own(connection, taken=True)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        crash_point("topic_taken")

    def release(self) -> None:
        """Free the lock, if this has it."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        crash_point("topic_stopped")
        with suppress(DBAPIError):  # PostgreSQL went away, and the lock with it
            self._own(connection, taken=False)
        with suppress(DBAPIError):
            connection.close()
        crash_point("topic_released")

    def _own(self, connection: sa.Connection, *, taken: bool) -> None:
        """Note in the topic's row, if it has one, that this driver took it or released it."""
        t = schema.speed_topics
        row = sa.update(t).where(t.c.topic == self._topic)
        took, left = row.values(owner=self._driver), row.where(t.c.owner == self._driver).values(owner=None)
        connection.execute(took if taken else left)

    def _lock(self, connection: sa.Connection, deadline: float) -> None:
        key = sa.func.hashtextextended("sluice speed layer " + self._topic, 0)
        while not connection.scalar(sa.select(sa.func.pg_try_advisory_lock(key))):
            if time.monotonic() > deadline:
                raise FencedOut(self._topic, "it holds the topic's lock in PostgreSQL")
            time.sleep(CLAIM_POLL_SECONDS)


def _parts(values: Sequence[Any]) -> Iterator[list[Any]]:
    for begin in range(0, len(values), ROWS_A_STATEMENT):
        yield list(values[begin : begin + ROWS_A_STATEMENT])
