"""The book of backfills: the requests, the filled days of each version, and their blocks.

A day of a version is filled by exactly one backfill. `Filling.replace` swaps the pointers of a day in one
transaction, so a reader sees all of the old blocks or all of the new ones, and never a sum of both. Each such
transaction raises the topic's *revision*. A reader that keeps pointers in memory checks the revision
repeatedly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import SQLAlchemyError

from sluice.storage.postgres import patiently
from sluice.storage.tables import history, schema
from sluice.storage.tables.commits import PATIENCE_SECONDS, ROWS_A_STATEMENT, Version
from sluice.storage.tables.epochs import PeriodKey
from sluice.storage.tables.tallies import TallyLayer, replace

#: How the rows in `state` begin that backfills write, and those that rebuilds write: no row of the speed
#: layer begins so.
FILLED, REBUILT = "b", "r"


class BackfillState(StrEnum):
    """How far a backfill is."""

    REQUESTED = "requested"  # its run has not begun
    RUNNING = "running"  # its run fills days
    FINISHED = "finished"  # all days are filled
    FAILED = "failed"  # its run ended; `message` says why


class UnknownBackfill(LookupError):
    """There is no backfill of that number."""


class DaysDropped(ValueError):
    """Days whose results are beyond retention cannot be filled."""

    def __init__(self, days: Sequence[date]) -> None:
        super().__init__(
            f"{', '.join(map(str, days))}: the lines arrived more than retention.days ago, so their results "
            "are dropped: fill later days"
        )


def days_between(first: date, last: date) -> list[date]:
    """The days from the first to the last, both included."""
    return [first + timedelta(days=n) for n in range((last - first).days + 1)]


@dataclass(frozen=True)
class Backfill:
    """A request to fill the days from `first_day` to `last_day`, both included, and its state."""

    id: int
    task_id: int
    version: int
    topic: str
    first_day: date
    last_day: date
    state: BackfillState
    done_days: int
    requested_by: str
    requested_at: datetime
    finished_at: datetime | None
    run_id: str | None
    message: str | None

    @property
    def label(self) -> str:
        return f"{self.task_id}v{self.version}"

    @property
    def days(self) -> list[date]:
        return [self.first_day + timedelta(days=n) for n in range((self.last_day - self.first_day).days + 1)]

    @property
    def ended(self) -> bool:
        return self.state in (BackfillState.FINISHED, BackfillState.FAILED)


def _backfill(row: sa.Row[Any]) -> Backfill:
    return Backfill(**{**row._mapping, "state": BackfillState(row.state)})


@dataclass(frozen=True)
class BackfillPointer:
    """Where one block of a filled day is: its row in `state` and its one valid column."""

    row: str
    task_id: int
    version: int
    day: date
    period_start: int
    layout: int
    bucket: int
    column: str
    bytes: int

    @property
    def period(self) -> PeriodKey:
        return self.task_id, self.version, self.period_start

    @property
    def owner(self) -> str:
        """What wrote it, of which version and day, e.g. ``b3v2/2015-05-17``: no period twice in a bucket."""
        return self.row.removesuffix(f"/{self.period_start}/{self.layout}/{self.bucket}")


@dataclass(frozen=True)
class FilledDay:
    """A filled day of a version; it is `projected` once all of its results are in HBase."""

    task_id: int
    version: int
    day: date
    backfill_id: int
    revision: int
    lines: int
    projected: bool


class Backfills:
    """The book of all topics.

    Reads and changes of a backfill's state wait `patience` seconds for a PostgreSQL that is away.
    """

    def __init__(self, engine: sa.Engine, patience: float = PATIENCE_SECONDS) -> None:
        self.engine = engine
        self.patience = patience

    def request(
        self, task_id: int, version: int, *, topic: str, first_day: date, last_day: date, user: str
    ) -> Backfill:
        """Record the request; the DAG `task_backfill` carries it out when it gets the id."""
        row = sa.insert(schema.backfills).values(
            task_id=task_id,
            version=version,
            topic=topic,
            first_day=first_day,
            last_day=last_day,
            state=BackfillState.REQUESTED,
            requested_by=user,
        )
        noted = sa.insert(schema.task_changes).values(
            task_id=task_id,
            version=version,
            action="backfilled",
            by=user,
            detail=f"{first_day} to {last_day}",
        )
        task = sa.select(schema.tasks.c.name).where(schema.tasks.c.id == task_id)
        with self.engine.begin() as connection:
            connection.execute(noted)
            name = connection.execute(task).scalar() or f"{task_id}v{version}"
            history.record(
                connection,
                who=user,
                what="task",
                name=name,
                action="backfilled",
                after=f"{first_day} to {last_day}",
            )
            return _backfill(connection.execute(row.returning(*schema.backfills.c)).one())

    def get(self, number: int) -> Backfill:
        """The backfill of that number. Raises UnknownBackfill."""
        for row in self._rows(sa.select(schema.backfills).where(schema.backfills.c.id == number)):
            return _backfill(row)
        raise UnknownBackfill(f"there is no backfill {number}: request one with `sluice tasks backfill`")

    def of_version(self, task_id: int, version: int) -> list[Backfill]:
        """The version's backfills, the oldest first."""
        t = schema.backfills
        query = sa.select(t).where(t.c.task_id == task_id, t.c.version == version).order_by(t.c.id)
        return [_backfill(row) for row in self._rows(query)]

    def running(self, topic: str) -> list[Backfill]:
        """The topic's backfills whose runs fill days now."""
        t = schema.backfills.c
        own = sa.select(schema.backfills).where(t.topic == topic, t.state == BackfillState.RUNNING)
        return [_backfill(row) for row in self._rows(own.order_by(t.id))]

    def set_run(self, number: int, run_id: str) -> None:
        """Record which run of the DAG carries the backfill out."""
        self._update(number, run_id=run_id)

    def set_running(self, number: int) -> None:
        self._update(number, state=BackfillState.RUNNING, message=None, finished_at=None)

    def set_done_days(self, number: int, days: int) -> None:
        self._update(number, done_days=days)

    def set_finished(self, number: int) -> None:
        self._update(number, state=BackfillState.FINISHED, message=None, finished_at=sa.func.now())

    def set_failed(self, number: int, message: str) -> None:
        self._update(number, state=BackfillState.FAILED, message=message, finished_at=sa.func.now())

    def boundary(self, task_id: int, version: int) -> dict[str, int] | None:
        """Where the version's first commit began; None before that commit.

        A backfill owns the lines below this boundary.
        """
        t = schema.task_ranges.c
        query = sa.select(t.start).where(t.task_id == task_id, t.version == version)
        for row in self._rows(query.order_by(t.first_seq).limit(1)):
            return dict(row.start)
        return None

    def revision(self, topic: str) -> int:
        """How often the topic's filled days have changed; 0 before the first change."""
        t = schema.backfill_revisions.c
        for row in self._rows(sa.select(t.revision).where(t.topic == topic)):
            return int(row.revision)
        return 0

    def filled(self, topic: str, day: date | None = None) -> list[FilledDay]:
        """The filled days of the topic's versions; with `day` only those of that day."""
        t = schema.backfill_days
        query = sa.select(*(t.c[name] for name in FilledDay.__dataclass_fields__)).where(t.c.topic == topic)
        if day is not None:
            query = query.where(t.c.day == day)
        return [FilledDay(**row._mapping) for row in self._rows(query.order_by(t.c.task_id, t.c.version))]

    def with_blocks(self, topic: str) -> set[Version]:
        """The topic's versions that have blocks of backfills or rebuilds."""
        t = schema.backfill_blocks.c
        query = sa.select(t.task_id, t.version).distinct().where(t.topic == topic)
        return {(row.task_id, row.version) for row in self._rows(query)}

    def unsettled(self, topic: str) -> set[Version]:
        """The topic's versions whose results a backfill or a rebuild may be writing."""
        t, r = schema.backfill_days.c, schema.recounts.c
        lagging = sa.select(t.task_id, t.version).where(t.topic == topic, ~t.projected)
        rebuilt = sa.select(r.task_id, r.version).where(r.topic == topic, r.switched)
        return {(row.task_id, row.version) for row in self._rows(sa.union(lagging, rebuilt))}

    def pointers(self, periods: Iterable[PeriodKey]) -> list[BackfillPointer]:
        """The blocks of these periods, on all their days."""
        t = schema.backfill_blocks.c
        key = sa.tuple_(t.task_id, t.version, t.period_start)
        wanted, found = sorted(periods), list[BackfillPointer]()
        for begin in range(0, len(wanted), ROWS_A_STATEMENT):
            found += self._pointers(key.in_(wanted[begin : begin + ROWS_A_STATEMENT]))
        return found

    def pointers_of(self, task_id: int, version: int, day: date) -> list[BackfillPointer]:
        """The blocks of a version's filled day."""
        t = schema.backfill_blocks.c
        own = sa.and_(t.task_id == task_id, t.version == version, t.day == day, _filled())
        return self._pointers(own, t.period_start, t.bucket)

    def rows_at(self, prefix: str) -> set[tuple[bytes, bytes]]:
        """The rows that begin so, and the columns of each that count, or will once a rebuild is switched."""
        t, s = schema.backfill_blocks.c, schema.rebuilt_blocks.c
        counts = sa.select(t.row, t.column).where(t.row.startswith(prefix, autoescape=True))
        staged = sa.select(s.row, s.column).where(s.row.startswith(prefix, autoescape=True))
        rows = self._rows(sa.union(counts, staged))
        return {(row.row.encode(), row.column.encode()) for row in rows}

    @contextmanager
    def filling(self, backfill: Backfill) -> Iterator[Filling]:
        """The right to change the version's filled days; only one caller has it, others wait.

        Nobody has it while somebody has the topic `unfilled`. The right is a lock of the session that
        `Filling` writes with. A `Filling` that lost its lock, because PostgreSQL restarted or considered the
        session dead, fails and can change nothing any more.
        """
        version = sa.func.hashtextextended(f"sluice backfill {backfill.label}", 0)
        with self.engine.connect() as connection, ExitStack() as held:
            # The topic's first: who holds that waits for no version's.
            _lock(held, connection, _topic_key(backfill.topic), "_shared")
            _lock(held, connection, version)
            yield Filling(connection, backfill)

    @contextmanager
    def unfilled(self, topic: str) -> Iterator[Callable[[], None]]:
        """Let no backfill fill days of the topic, of whatever version; waits for those that do.

        Yields a check, which raises sqlalchemy's OperationalError if the right was lost with its session.
        """
        with self.engine.connect() as connection, ExitStack() as held:
            _lock(held, connection, _topic_key(topic))
            yield lambda: _check(connection)

    def _pointers(self, condition: sa.ColumnElement[bool], *order: Any) -> list[BackfillPointer]:
        t = schema.backfill_blocks
        names = BackfillPointer.__dataclass_fields__
        query = sa.select(*(t.c[name] for name in names)).where(condition).order_by(*order)
        return [BackfillPointer(**row._mapping) for row in self._rows(query)]

    def _update(self, number: int, **values: Any) -> None:
        statement = sa.update(schema.backfills).where(schema.backfills.c.id == number).values(**values)

        def write() -> None:
            with self.engine.begin() as connection:
                connection.execute(statement)

        patiently(write, self.patience)

    def _rows(self, query: sa.Select[Any] | sa.CompoundSelect[Any]) -> Sequence[sa.Row[Any]]:
        def read() -> Sequence[sa.Row[Any]]:
            with self.engine.connect() as connection:
                return connection.execute(query).all()

        return patiently(read, self.patience)


class Filling:
    """What the holder of the lock may do; it writes only with the session that has the lock."""

    def __init__(self, connection: sa.Connection, backfill: Backfill) -> None:
        self._connection = connection
        self._backfill = backfill

    def hold(self) -> None:
        """Check that the lock is still held. Raises sqlalchemy's OperationalError if it was lost."""
        _check(self._connection)

    def replace(
        self,
        day: date,
        pointers: Sequence[BackfillPointer],
        lines: int,
        tallies: Sequence[Mapping[str, Any]] = (),
        skipped: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Replace the blocks of the version's day by these; its results lag until projected.

        `tallies` and `skipped`: what became of the day's lines (`storage.tables.tallies`).
        """
        own, blocks = self._backfill, schema.backfill_blocks
        with self._connection.begin():
            self._connection.execute(
                sa.delete(blocks).where(
                    *(blocks.c.task_id == own.task_id, blocks.c.version == own.version),
                    *(blocks.c.day == day, _filled()),
                )
            )
            for begin in range(0, len(pointers), ROWS_A_STATEMENT):
                some = pointers[begin : begin + ROWS_A_STATEMENT]
                self._connection.execute(
                    sa.insert(blocks), [{"topic": own.topic, **asdict(pointer)} for pointer in some]
                )
            version = own.task_id, own.version
            replace(self._connection, (own.topic, TallyLayer.FILLED, day), tallies, skipped, version=version)
            self._set_day(day, {"lines": lines, "projected": False, "computed_at": sa.func.now()})

    def set_projected(self, day: date) -> None:
        """Record that all results of the day are in HBase, so the batch layer counts it too."""
        with self._connection.begin():
            self._set_day(day, {"projected": True})

    def _set_day(self, day: date, values: Mapping[str, Any]) -> None:
        own = self._backfill
        values = {
            **values,
            "backfill_id": own.id,
            "revision": next_revision(self._connection, own.topic),
        }
        key = {"task_id": own.task_id, "version": own.version, "day": day}
        t = schema.backfill_days
        if "lines" not in values:
            same = [t.c[name] == value for name, value in key.items()]
            self._connection.execute(sa.update(t).where(*same).values(**values))
            return
        statement = insert(t).values(topic=own.topic, **key, **values)
        self._connection.execute(statement.on_conflict_do_update(index_elements=list(key), set_=values))


def _topic_key(topic: str) -> sa.ColumnElement[int]:
    """Of a lock that a topic's backfills share."""
    return sa.func.hashtextextended(f"sluice backfills of {topic}", 0)


def _lock(held: ExitStack, connection: sa.Connection, key: Any, kind: str = "") -> None:
    """Take a lock of the session until `held` ends: no transaction needs to stay open."""

    def unlock() -> None:
        with suppress(SQLAlchemyError):  # the session is gone, and the lock with it
            connection.execute(sa.select(getattr(sa.func, f"pg_advisory_unlock{kind}")(key)))
            connection.commit()

    connection.execute(sa.select(getattr(sa.func, f"pg_advisory_lock{kind}")(key)))
    connection.commit()
    held.callback(unlock)


def _check(connection: sa.Connection) -> None:
    with connection.begin():
        connection.execute(sa.select(1))


def _filled() -> sa.ColumnElement[bool]:
    """Which blocks are of backfills; the others are of rebuilds."""
    return schema.backfill_blocks.c.row.startswith(FILLED)


def next_revision(connection: sa.Connection, topic: str) -> int:
    """Raise the topic's revision within the transaction; concurrent ones wait until it ends."""
    t = schema.backfill_revisions
    statement = insert(t).values(topic=topic, revision=1)
    statement = statement.on_conflict_do_update(index_elements=["topic"], set_={"revision": t.c.revision + 1})
    return int(connection.execute(statement.returning(t.c.revision)).scalar_one())
