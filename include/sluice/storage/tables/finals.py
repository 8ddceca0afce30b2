"""The book of final blocks: which published periods are in which blocks of HBase's table `finals`.

A publication writes its blocks first, under new names, and then replaces the ranges that name them, in the
transaction that makes the day final. So a reader sees all of a publication or nothing of it. The names of
blocks that no range has yet, or has any more, are in `unused_finals`: a publication that dies leaves no block
that nobody knows.

A period has one side. It is *final* if a range contains its start. If a range is out of date, it can lack a
period for which the first line came later: then `Sides.open` has that period, and the reader takes it unless
the range's blocks have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from datetime import date, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, insert

from sluice.storage.postgres import patiently
from sluice.storage.tables import recounts, schema
from sluice.storage.tables.backfills import BackfillPointer
from sluice.storage.tables.commits import PATIENCE_SECONDS, ROWS_A_STATEMENT, Offsets, Version
from sluice.storage.tables.days import Day, out_of_date, published_now
from sluice.storage.tables.epochs import StatePeriod

_r, _u = schema.final_ranges, schema.unused_finals

_MOMENT = sa.func.concat(
    sa.cast(sa.func.pg_current_snapshot(), sa.Text), " ", sa.cast(sa.func.pg_postmaster_start_time(), sa.Text)
)


class BlocksSwept(RuntimeError):
    """A publication was too slow: its blocks were deleted as unused before it ended."""

    def __init__(self, topic: str, day: date) -> None:
        super().__init__(
            f"{topic} {day}: final blocks were deleted before they were published: reconcile the day again"
        )


@dataclass(frozen=True)
class FinalBlock:
    """A block of a range, with rows of periods from `first` to `last` (ms)."""

    row: str
    first: int
    last: int
    rows: int
    bytes: int


@dataclass(frozen=True)
class FinalRange:
    """The published periods of a version that start in [first, until), ms; their blocks are in order."""

    task_id: int
    version: int
    first: int
    until: int
    first_day: date
    last_day: date
    run_id: str
    blocks: tuple[FinalBlock, ...]


@dataclass(frozen=True)
class Sides:
    """Where each period of a version comes from, as of one moment."""

    final: tuple[FinalRange, ...]  # in order
    superseded: frozenset[int]  # the `first` of those that are out of date
    #: Periods with state, or filled backwards, that no range contains; and those in ranges out of date.
    open: tuple[int, ...]
    state: Mapping[int, StatePeriod]  # of open periods
    filled: Mapping[int, tuple[BackfillPointer, ...]]  # of open periods
    #: The newest commit then; `state` is as of it.
    head: int = field(default=0, compare=False)
    moment: str = field(default="", compare=False)  # see `Finals.moment`
    #: Periods that are not open, because they are being counted again, and that no range contains.
    recounted: frozenset[int] = frozenset()


class Finals:
    """The final ranges of one topic."""

    def __init__(self, engine: sa.Engine, topic: str, patience: float = PATIENCE_SECONDS) -> None:
        self.engine = engine
        self.topic = topic
        self.patience = patience

    def reserve(self, rows: Sequence[str]) -> None:
        """Note blocks that are about to be written."""

        def write() -> None:
            with self.engine.begin() as connection:
                _unused(connection, self.topic, rows)

        patiently(write, self.patience)

    def publish(self, day: date, cut: Offsets, ranges: Sequence[FinalRange]) -> None:
        """Make the day final, with these ranges in place of those that they overlap; one transaction.

        It may be repeated. Raises BlocksSwept.
        """

        def write() -> None:
            with self.engine.begin() as connection:
                for each in ranges:
                    self._replace(connection, day, each)
                published_now(connection, self.topic, day, cut)

        patiently(write, self.patience)

    def sides(self, version: Version, since: int, until: int) -> Sides:
        """Where the periods of a version that start in [since, until) come from, as of one moment."""

        def read() -> Sides:
            with self.engine.connect() as connection:
                snapshot = connection.execution_options(isolation_level="REPEATABLE READ")
                return _sides(snapshot, self.topic, version, since, until)

        return patiently(read, self.patience)

    def moment(self) -> str:
        """Which transactions can be seen now.

        While this is the same, the whole database is. (A transaction that was lost in a crash may have been
        seen as running, and its number may be given again, so the start of the server is part of it.)
        """

        def read() -> str:
            with self.engine.connect() as connection:
                return str(connection.scalar(sa.select(_MOMENT)))

        return patiently(read, self.patience)

    def of_topic(self) -> list[FinalRange]:
        with self.engine.connect() as connection:
            return _ranges(connection, _r.c.topic == self.topic)[0]

    def forget(self, ranges: Iterable[FinalRange]) -> None:
        """Forget these ranges; their blocks become unused."""
        with self.engine.begin() as connection:
            for each in ranges:
                _unused(connection, self.topic, _gone(connection, each))

    def unused(self, before: datetime) -> list[str]:
        """The blocks that no range has had since then."""
        with self.engine.connect() as connection:
            query = sa.select(_u.c.row).where(_u.c.topic == self.topic, _u.c.since < before)
            return sorted(connection.scalars(query))

    def take_unused(self, rows: Sequence[str]) -> list[str]:
        """Those of the blocks that are still unused; none of them can be published from now on."""
        with self.engine.begin() as connection:
            query = sa.delete(_u).where(_u.c.row.in_(rows)).returning(_u.c.row)
            return sorted(connection.scalars(query)) if rows else []

    def _replace(self, connection: sa.Connection, day: date, new: FinalRange) -> None:
        mine = [block.row for block in new.blocks]
        known = sa.select(_r.c.blocks).where(
            _r.c.task_id == new.task_id, _r.c.version == new.version, _r.c.first == new.first
        )
        before = connection.execute(known).one_or_none()
        if before is not None and [block[0] for block in before.blocks] == mine:
            return  # an earlier attempt succeeded although its answer never arrived
        for begin in range(0, len(mine), ROWS_A_STATEMENT):
            some = mine[begin : begin + ROWS_A_STATEMENT]
            if connection.execute(sa.delete(_u).where(_u.c.row.in_(some))).rowcount != len(some):
                raise BlocksSwept(self.topic, day)
        _unused(connection, self.topic, _gone(connection, new))
        values = {**asdict(new), "blocks": [list(astuple(block)) for block in new.blocks]}
        connection.execute(sa.insert(_r).values(topic=self.topic, **values))


def _gone(connection: sa.Connection, range_: FinalRange) -> list[str]:
    """Delete the ranges of the version that overlap this one; returns their blocks."""
    same = (_r.c.task_id == range_.task_id, _r.c.version == range_.version)
    overlap = (_r.c.first < range_.until, _r.c.until > range_.first)
    found = connection.scalars(sa.delete(_r).where(*same, *overlap).returning(_r.c.blocks))
    return [block[0] for blocks in found for block in blocks]


def _unused(connection: sa.Connection, topic: str, rows: Sequence[str]) -> None:
    for begin in range(0, len(rows), ROWS_A_STATEMENT):
        some = [{"row": row, "topic": topic} for row in rows[begin : begin + ROWS_A_STATEMENT]]
        connection.execute(insert(_u).on_conflict_do_nothing(), some)


def _sides(connection: sa.Connection, topic: str, version: Version, since: int, until: int) -> Sides:
    c = schema.commits.c
    newest = sa.select(sa.func.max(c.seq)).where(c.topic == topic)
    moment, head = connection.execute(sa.select(_MOMENT, newest.scalar_subquery())).one()
    of_version = (_r.c.task_id == version[0], _r.c.version == version[1])
    # Ranges do not overlap: of those that begin before, only the last one may reach into the time.
    last = sa.select(sa.func.max(_r.c.first)).where(*of_version, _r.c.first <= since)
    begins = _r.c.first >= sa.func.coalesce(last.scalar_subquery(), since)
    ranges, at = _ranges(connection, sa.and_(*of_version, begins, _r.c.first < until, _r.c.until > since))
    late = _superseded(connection, topic, ranges, at)
    gaps = _gaps([r for r in ranges if r.first not in late], since, until)
    state = {
        row.period_start: StatePeriod(*tuple(row))
        for row in _in(connection, schema.state_periods, StatePeriod, (topic, *version), gaps)
    }
    filled: dict[int, list[BackfillPointer]] = {}
    for row in _in(connection, schema.backfill_blocks, BackfillPointer, (topic, *version), gaps):
        filled.setdefault(row.period_start, []).append(BackfillPointer(*tuple(row)))
    again = recounts.starts(connection, topic, version, gaps)
    unpublished = _gaps(ranges, since, until)
    return Sides(
        final=tuple(ranges),
        superseded=frozenset(late),
        recounted=frozenset(s for s in again if any(begin <= s < end for begin, end in unpublished)),
        open=tuple(sorted((state.keys() | filled.keys()) - again)),
        state=state,
        filled={start: tuple(own) for start, own in filled.items()},
        head=head or 0,
        moment=moment,
    )


def _ranges(
    connection: sa.Connection, condition: sa.ColumnElement[bool]
) -> tuple[list[FinalRange], list[datetime]]:
    """The ranges in order, and when each was published."""
    query = sa.select(_r).where(condition).order_by(_r.c.task_id, _r.c.version, _r.c.first)
    rows = connection.execute(query).all()
    found = [
        FinalRange(
            *(row.task_id, row.version, row.first, row.until, row.first_day, row.last_day, row.run_id),
            tuple(FinalBlock(*block) for block in row.blocks),
        )
        for row in rows
    ]
    return found, [row.published_at for row in rows]


def _superseded(
    connection: sa.Connection, topic: str, ranges: Sequence[FinalRange], at: Sequence[datetime]
) -> set[int]:
    """The `first` of ranges with a day that is out of date or was computed again since."""
    if not ranges:
        return set()
    t = schema.days
    between = (t.c.day >= min(r.first_day for r in ranges), t.c.day <= max(r.last_day for r in ranges))
    rows = connection.execute(sa.select(t).where(t.c.topic == topic, *between))
    days = {row.day: Day(**row._mapping) for row in rows}
    late = out_of_date(connection, topic, list(days.values()))
    changed: set[int] = set()
    for range_, published_at in zip(ranges, at, strict=True):
        own = (day for day in days.values() if range_.first_day <= day.day <= range_.last_day)
        if any(day.day in late or day.computed_at > published_at for day in own):
            changed.add(range_.first)
    return changed


def _gaps(ranges: Iterable[FinalRange], since: int, until: int) -> list[tuple[int, int]]:
    """What of [since, until) no range contains; `ranges` are in order and do not overlap."""
    gaps, begin = [], since
    for each in ranges:
        if each.first > begin:
            gaps.append((begin, each.first))
        begin = max(begin, each.until)
    return [*gaps, (begin, until)] if begin < until else gaps


def _in(
    connection: sa.Connection,
    table: sa.Table,
    kind: Any,
    version: tuple[str, int, int],  # with the topic
    gaps: Sequence[tuple[int, int]],
) -> Sequence[sa.Row[Any]]:
    """The version's rows of a table whose periods start in the gaps: the fields of `kind` in their order.

    The gaps are arrays, so that the plan looks each of them up in the index.
    """
    if not gaps:
        return []
    numbers = ARRAY(sa.BigInteger)
    firsts, ends = (sa.cast(list(own), numbers) for own in zip(*gaps, strict=True))
    names = (sa.column("low", sa.BigInteger), sa.column("high", sa.BigInteger))
    gap = sa.func.unnest(firsts, ends).table_valued(*names).render_derived(name="gap")
    t = table.c
    inside = sa.and_(t.period_start >= gap.c.low, t.period_start < gap.c.high)
    same = [t[name] == own for name, own in zip(("topic", "task_id", "version"), version, strict=True)]
    fields = [t[name] for name in kind.__dataclass_fields__]
    return connection.execute(sa.select(*fields).select_from(gap).join(table, inside).where(*same)).all()
