"""The book of rebuilds: which periods of a topic are counted again from the archive, and up to where.

A rebuild *begins* in one transaction that knows the newest commit: it sets its periods aside, and its *cut*
is that commit's end. From then on each line of these periods has one owner. Those below the cut are the
rebuild's; those from there on are the speed layer's, whose next batch begins the periods anew. The blocks of
each day are *staged*, under names that nobody reads. One transaction *switches* them: they replace what the
periods had of backfills and earlier rebuilds, and the periods leave the set-aside list.

A rebuild that died goes on with the days that are not staged yet.

A rebuild waits while Kafka may have lost records that a layer had read (`open_losses`): the archive lacks
them below the cut, and their copies come beyond it, where the ledger takes them for doubles. If a log got a
new era after the cut was fixed, the rebuild begins anew, with another cut.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from sluice.storage.postgres import patiently
from sluice.storage.tables import archive_expiry, history, open_losses, recounts, schema
from sluice.storage.tables.backfills import BackfillPointer, next_revision
from sluice.storage.tables.commits import PATIENCE_SECONDS, Version
from sluice.storage.tables.epochs import PeriodKey

_t, _staged = schema.rebuilds, schema.rebuilt_blocks
#: Who asks for the rebuild of periods that were set aside.
PLATFORM = "sluice"
#: A rebuild whose last try ended badly is tried again after this.
PAUSE = timedelta(minutes=2)
#: How the message of a rebuild begins that waits, and has not failed.
WAITING = "waits: "


class RebuildState(StrEnum):
    """How far a rebuild is."""

    REQUESTED = "requested"  # nothing is set aside for it
    COUNTING = "counting"  # its cut is fixed; it counts day by day
    SWITCHED = "switched"  # readers have its blocks; it writes the results
    FINISHED = "finished"


class FilledMeanwhile(RuntimeError):
    """A backfill filled days of a rebuild after they were counted: they are counted once more."""

    def __init__(self, topic: str, days: Collection[date]) -> None:
        super().__init__(
            f"topic {topic!r}: a backfill filled {', '.join(map(str, sorted(days)))} after the rebuild had "
            "counted it: the next try counts it once more"
        )


class BeginsAnew(RuntimeError):
    """A partition's log got a new era after the rebuild's cut was fixed."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"Kafka lost records of topic {topic!r} after the rebuild had begun: the next try counts again, "
            "with another cut"
        )


#: The rebuild can only wait: it is tried again later.
WAITS = (open_losses.LossesOpen, BeginsAnew)


class RebuildMoved(RuntimeError):
    """Another run of the rebuild got further meanwhile."""

    def __init__(self, number: int) -> None:
        super().__init__(
            f"rebuild {number} was carried out by another run meanwhile: this one changed nothing"
        )


class UnknownRebuild(LookupError):
    """There is no rebuild of that number."""


@dataclass(frozen=True)
class Rebuild:
    """A request to count periods again, and its state.

    versions: None for the periods that were set aside. first_day, last_day: None where there is no limit.
    """

    id: int
    topic: str
    versions: tuple[Version, ...] | None
    first_day: date | None
    last_day: date | None
    state: RebuildState
    cut: dict[str, int] | None
    cut_seq: int | None
    eras: dict[str, int] | None
    revision: int
    days: tuple[date, ...]
    done_days: tuple[date, ...]
    lines: int
    requested_by: str
    requested_at: datetime
    finished_at: datetime | None
    tried_at: datetime | None
    message: str | None

    @property
    def task_ids(self) -> list[int]:
        """The tasks of its versions, in order."""
        return sorted({task_id for task_id, _ in self.versions or ()})

    @property
    def waits(self) -> bool:
        """Whether its last try only found that it has to wait."""
        return (self.message or "").startswith(WAITING)

    @property
    def failure(self) -> str:
        """Why its last try ended badly; empty if it did not."""
        return "" if self.waits else self.message or ""

    @property
    def progress(self) -> str:
        """How far it is, in words."""
        if self.waits:
            return str(self.message)
        if self.state == RebuildState.COUNTING:
            return f"counting: {len(self.done_days)} of {len(self.days)} days, {self.lines:,} lines"
        if self.state == RebuildState.SWITCHED:
            return "its blocks count; its results are being written"
        if self.state == RebuildState.FINISHED:
            return f"finished: {len(self.days)} days, {self.lines:,} lines"
        return "waits for the DAG rebuild"


def _rebuild(row: sa.Row[Any]) -> Rebuild:
    named = dict(row._mapping)
    versions = named["versions"]
    return Rebuild(
        **{
            **named,
            "versions": None if versions is None else tuple((own[0], own[1]) for own in versions),
            "state": RebuildState(row.state),
            "days": tuple(map(date.fromisoformat, row.days)),
            "done_days": tuple(map(date.fromisoformat, row.done_days)),
        }
    )


class Rebuilds:
    """The book of all topics.

    Reads, and notes of a rebuild's state, wait `patience` seconds for a PostgreSQL that is away.
    """

    def __init__(self, engine: sa.Engine, patience: float = PATIENCE_SECONDS) -> None:
        self.engine = engine
        self.patience = patience

    def request(
        self,
        topic: str,
        versions: Collection[Version] | None,
        first: date | None = None,
        last: date | None = None,
        *,
        user: str,
    ) -> Rebuild:
        """Record the request; the DAG `rebuild` carries it out."""
        wanted = None if versions is None else [list(each) for each in sorted(versions)]
        row = sa.insert(_t).values(
            topic=topic,
            versions=sa.null() if wanted is None else wanted,
            first_day=first,
            last_day=last,
            state=RebuildState.REQUESTED,
            requested_by=user,
        )
        what = "set aside" if wanted is None else ", ".join(f"{task}v{number}" for task, number in wanted)
        after = f"{what}; {first or 'first day'} to {last or 'last day'}"
        with self.engine.begin() as connection:
            history.record(connection, who=user, what="topic", name=topic, action="rebuilt", after=after)
            return _rebuild(connection.execute(row.returning(*_t.c)).one())

    def get(self, number: int) -> Rebuild:
        """The rebuild of that number. Raises UnknownRebuild."""
        for found in self._read(_t.c.id == number):
            return found
        raise UnknownRebuild(f"there is no rebuild {number}: ask for one with `sluice rebuild TOPIC`")

    def unfinished(self, topic: str | None = None) -> list[Rebuild]:
        """The rebuilds that are not finished, the oldest first."""
        own = sa.true() if topic is None else _t.c.topic == topic
        return self._read(sa.and_(_t.c.state != RebuildState.FINISHED, own))

    def newest(self, topic: str, most: int) -> list[Rebuild]:
        """The newest rebuilds of the topic, the last one first."""
        return self._read(_t.c.topic == topic, most)

    def next(self, now: datetime) -> int | None:
        """The rebuild that is due: the oldest one, unless its last try ended badly a short time ago.

        Periods that were set aside, and that no rebuild has, get one.
        """
        open_ = self.unfinished()
        for each in open_:
            if each.tried_at is None or _utc(each.tried_at) < now - PAUSE:
                return each.id
        # One that has begun does not take what is set aside now, and it may never end.
        asked = {e.topic for e in open_ if e.versions is None and e.state == RebuildState.REQUESTED}
        r = schema.recounts.c
        query = sa.select(r.topic).distinct().where(recounts.free()).order_by(r.topic)
        with self.engine.connect() as connection:
            topics = [topic for topic in connection.scalars(query) if topic not in asked]
        return self.request(topics[0], None, user=PLATFORM).id if topics else None

    @contextmanager
    def alone(self, topic: str) -> Iterator[None]:
        """Let only one caller at a time rebuild the topic; the next one waits."""
        with _locked(self.engine, [f"sluice rebuild {topic}"]):
            yield

    @contextmanager
    def unfilled(self, versions: Collection[Version]) -> Iterator[None]:
        """Let no backfill fill one of these versions."""
        names = [f"sluice backfill {task}v{version}" for task, version in sorted(versions)]
        with _locked(self.engine, names):
            yield

    def begin(self, number: int, keys: Collection[PeriodKey], days: Collection[date]) -> Rebuild:
        """Set these periods aside for the rebuild, and fix its cut: the end of the newest commit.

        A rebuild that counts begins anew: nothing is staged then. Raises LossesOpen, RebuildMoved.
        """
        rebuild = self.get(number)
        with self.engine.begin() as connection:
            _hold(connection, number, RebuildState.REQUESTED, RebuildState.COUNTING)
            recounts.gather(connection, keys)  # may take seconds: before commits have to wait
            head = _newest_commit(connection, rebuild.topic)
            eras = open_losses.eras_once_settled(connection, rebuild.topic)
            connection.execute(sa.delete(_staged).where(_staged.c.rebuild_id == number))
            recounts.take(connection, rebuild.topic, number)
            fixed = {"cut": dict(head.end), "cut_seq": head.seq} if head else {"cut": {}, "cut_seq": 0}
            fixed |= {"eras": eras, "days": [day.isoformat() for day in sorted(days)], "done_days": []}
            revision = next_revision(connection, rebuild.topic)
            _set(connection, number, state=RebuildState.COUNTING, revision=revision, lines=0, **fixed)
            recounts.tell(connection, rebuild.topic)
        return self.get(number)

    def outdated(self, rebuild: Rebuild) -> bool:
        """Whether the rebuild's cut is of no use any more. Raises LossesOpen."""
        with self.engine.connect() as connection:
            return open_losses.eras_once_settled(connection, rebuild.topic) != rebuild.eras

    def periods(self, number: int) -> set[PeriodKey]:
        """The periods that the rebuild still has."""
        r = schema.recounts.c
        query = sa.select(r.task_id, r.version, r.period_start).where(r.rebuild_id == number)
        with self.engine.connect() as connection:
            return {(row.task_id, row.version, row.period_start) for row in connection.execute(query)}

    def leave_out(self, number: int, keys: Collection[PeriodKey], days: Collection[date]) -> None:
        """Go on without these periods, of which retention deleted lines, and with these days.

        They stay on the set-aside list. Raises RebuildMoved.
        """
        with self.engine.begin() as connection:
            rebuild = _hold(connection, number, RebuildState.COUNTING)
            recounts.expire(connection, rebuild.topic, keys, number)
            _set_days(connection, rebuild, days)

    def give_up(self, number: int, failures: Mapping[Version, str], days: Collection[date]) -> None:
        """Go on without these versions, which could not be counted, and with these days.

        Their periods stay on the set-aside list, with the reason. Raises RebuildMoved.
        """
        with self.engine.begin() as connection:
            rebuild = _hold(connection, number, RebuildState.COUNTING)
            _unstage(connection, number, failures)
            recounts.fail(connection, rebuild.topic, failures, number)
            _set_days(connection, rebuild, days)

    def stage(self, number: int, day: date, pointers: Sequence[BackfillPointer], lines: int) -> None:
        """Note the blocks of a day that were written; nobody reads them yet. Raises RebuildMoved."""
        with self.engine.begin() as connection:
            rebuild = _hold(connection, number, RebuildState.COUNTING)
            gone = sa.delete(_staged).where(_staged.c.rebuild_id == number, _staged.c.day == day)
            connection.execute(gone)
            for some in recounts.parts(pointers):
                named = [{"rebuild_id": number, "topic": rebuild.topic, **asdict(each)} for each in some]
                connection.execute(sa.insert(_staged), named)
            done = [each.isoformat() for each in (*rebuild.done_days, day)]
            _set(connection, number, done_days=done, lines=rebuild.lines + lines)

    def count_again(self, number: int, days: Collection[date], revision: int) -> None:
        """Forget that these days are staged: backfills filled them since, up to the topic's revision."""
        left = [day.isoformat() for day in self.get(number).done_days if day not in days]
        self._note(number, done_days=left, revision=revision)

    def switch(self, number: int) -> None:
        """Let the staged blocks count in place of what the rebuild's periods had; one transaction.

        Raises FilledMeanwhile, LossesOpen, BeginsAnew, DaysExpired, RebuildMoved.
        """
        with self.engine.begin() as connection:
            rebuild = _hold(connection, number, RebuildState.COUNTING)
            next_revision(connection, rebuild.topic)  # first: a backfill's transaction waits for it
            _check(connection, rebuild)
            _replace(connection, rebuild)
            _set(connection, number, state=RebuildState.SWITCHED)
            recounts.tell(connection, rebuild.topic)

    def finish(self, number: int) -> None:
        """Note that all results of the rebuild's periods are in HBase. Raises RebuildMoved."""
        r = schema.recounts
        with self.engine.begin() as connection:
            rebuild = _hold(connection, number, RebuildState.SWITCHED)
            connection.execute(sa.delete(r).where(r.c.rebuild_id == number))
            next_revision(connection, rebuild.topic)
            done = {"state": RebuildState.FINISHED, "finished_at": sa.func.now(), "message": None}
            _set(connection, number, **done)

    def set_failed(self, number: int, message: str) -> None:
        """Note why a try ended badly; it is tried again after PAUSE."""
        self._note(number, message=message, tried_at=datetime.now(UTC))

    def set_waiting(self, number: int, why: str) -> None:
        """Note what the rebuild waits for; it is tried again after PAUSE, with another cut."""
        self._note(number, message=f"{WAITING}{why}", tried_at=datetime.now(UTC), eras=None)

    def set_running(self, number: int) -> None:
        self._note(number, message=None, tried_at=None)

    def _note(self, number: int, **values: Any) -> None:
        def write() -> None:
            with self.engine.begin() as connection:
                _set(connection, number, **values)

        patiently(write, self.patience)

    def _read(self, condition: sa.ColumnElement[bool], newest: int | None = None) -> list[Rebuild]:
        order = _t.c.id if newest is None else _t.c.id.desc()
        query = sa.select(_t).where(condition).order_by(order).limit(newest)

        def read() -> list[Rebuild]:
            with self.engine.connect() as connection:
                return [_rebuild(row) for row in connection.execute(query)]

        return patiently(read, self.patience)


def _hold(connection: sa.Connection, number: int, *states: RebuildState) -> Rebuild:
    """Keep the rebuild as it is until the transaction ends; it is in one of these states.

    It is a transaction's first step: while a backup holds the table, it waits here and holds nothing up.
    Raises RebuildMoved.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("LOCK TABLE rebuilds IN ROW EXCLUSIVE MODE"))
    own = sa.update(_t).where(_t.c.id == number, _t.c.state.in_(states)).values(state=_t.c.state)
    if not connection.execute(own).rowcount:
        raise RebuildMoved(number)
    return _rebuild(connection.execute(sa.select(_t).where(_t.c.id == number)).one())


def _newest_commit(connection: sa.Connection, topic: str) -> Any:
    """The newest commit's seq and end, or None; no further one comes until the transaction ends."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("LOCK TABLE commits IN SHARE MODE"))
    c = schema.commits.c
    newest = sa.select(c.seq, c.end).where(c.topic == topic).order_by(c.seq.desc()).limit(1)
    return connection.execute(newest).one_or_none()


def _unstage(connection: sa.Connection, number: int, versions: Iterable[Version]) -> None:
    for task_id, version in versions:
        own = _staged.c.task_id == task_id, _staged.c.version == version
        connection.execute(sa.delete(_staged).where(_staged.c.rebuild_id == number, *own))


def _set(connection: sa.Connection, number: int, **values: Any) -> None:
    connection.execute(sa.update(_t).where(_t.c.id == number).values(**values))


def _set_days(connection: sa.Connection, rebuild: Rebuild, days: Collection[date]) -> None:
    """Let the rebuild count only these days."""
    done = [day.isoformat() for day in rebuild.done_days if day in days]
    _set(connection, rebuild.id, days=[day.isoformat() for day in sorted(days)], done_days=done)


def _check(connection: sa.Connection, rebuild: Rebuild) -> None:
    """Raise what a switch raises if what was counted is not all that there is."""
    if open_losses.eras_once_settled(connection, rebuild.topic) != rebuild.eras:
        raise BeginsAnew(rebuild.topic)
    if gone := archive_expiry.days(connection, rebuild.topic) & set(rebuild.days):
        raise archive_expiry.DaysExpired(rebuild.topic, gone)
    f, r = schema.backfill_days.c, schema.recounts.c
    since = sa.select(f.day).where(f.topic == rebuild.topic, f.revision > rebuild.revision)
    versions = sa.select(r.task_id, r.version).where(r.rebuild_id == rebuild.id)
    since = since.where(sa.tuple_(f.task_id, f.version).in_(versions))
    if days := set(connection.scalars(since)) & set(rebuild.days):
        raise FilledMeanwhile(rebuild.topic, days)


def _replace(connection: sa.Connection, rebuild: Rebuild) -> None:
    """Put the staged blocks in the place of what the rebuild's periods had."""
    b, r = schema.backfill_blocks, schema.recounts
    mine = sa.select(r.c.task_id, r.c.version, r.c.period_start).where(r.c.rebuild_id == rebuild.id)
    own = sa.tuple_(b.c.task_id, b.c.version, b.c.period_start).in_(mine)
    staged = sa.tuple_(_staged.c.task_id, _staged.c.version, _staged.c.period_start).in_(mine)
    names = [column.name for column in b.c]
    of_rebuild = _staged.c.rebuild_id == rebuild.id
    blocks = sa.select(*(_staged.c[name] for name in names)).where(of_rebuild, staged)
    connection.execute(sa.delete(b).where(b.c.topic == rebuild.topic, own))
    connection.execute(sa.insert(b).from_select(names, blocks))
    connection.execute(sa.delete(_staged).where(of_rebuild))
    connection.execute(sa.update(r).where(r.c.rebuild_id == rebuild.id).values(switched=True))


@contextmanager
def _locked(engine: sa.Engine, names: Sequence[str]) -> Iterator[None]:
    """Hold these locks of a session, which are lost with it.

    They keep useless work and prunings of the same rows apart. A switch looks for itself.
    """
    keys = [sa.func.hashtextextended(name, 0) for name in names]
    with engine.connect() as connection, ExitStack() as held:
        for key in keys:
            connection.execute(sa.select(sa.func.pg_advisory_lock(key)))
            connection.commit()
            held.callback(_unlock, connection, key)
        yield


def _unlock(connection: sa.Connection, key: Any) -> None:
    with suppress(SQLAlchemyError):  # the session is gone, and the lock with it
        connection.execute(sa.select(sa.func.pg_advisory_unlock(key)))
        connection.commit()


def _utc(at: datetime) -> datetime:
    return at if at.tzinfo else at.replace(tzinfo=UTC)
