"""The book of days: up to which cut the batch layer computed and published each day.

These are days of event time. Offsets are maps from the partition (as text) to an offset; a partition that is
missing in a map has offset 0. A day is *closed* once it was published. It is *marked*, to be computed again,
while one of these holds:

- the speed layer counted a line of the day at or beyond its cut: a late line if the day was published, else
  the computation was superseded before it could be compared;
- a task version began or ended below its cut in a commit that did not exist yet when the day was computed, so
  the day was computed with the wrong versions;
- a version was filled backwards for it since it was computed, or is being filled now;
- lines of it were erased since it was computed.

A day that retention has *dropped* has no results any more; its lines are still computed and proved.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from sluice.runtime.days import today
from sluice.storage.postgres import patiently
from sluice.storage.tables import erasures, schema
from sluice.storage.tables.commits import Offsets
from sluice.storage.tables.tallies import TallyLayer, replace

#: How far back a night looks for days that were never computed.
LOOK_BACK = timedelta(days=31)
#: How long to wait for a PostgreSQL that is away: kill -9 and recovery take seconds.
PATIENCE_SECONDS = 120.0


@dataclass(frozen=True)
class Day:
    """One day as it was last computed, and as it was last published."""

    topic: str
    day: date
    cut: dict[str, int]
    run_id: str
    tasks_seq: int
    computed_at: datetime
    raw_lines: int
    lines: int
    published_cut: dict[str, int] | None
    published_at: datetime | None
    backfills: int = 0

    @property
    def is_final(self) -> bool:
        """Whether the day was published after it was last computed."""
        return (
            self.published_at is not None
            and self.published_cut == self.cut
            and self.published_at > self.computed_at
        )


@dataclass(frozen=True)
class Online:
    """What the speed layer counted for a day."""

    lines: int
    last_offsets: dict[str, int]


class Days:
    """The book of one topic."""

    def __init__(self, engine: sa.Engine, topic: str) -> None:
        self.engine = engine
        self.topic = topic

    def get(self, day: date) -> Day | None:
        found = self._days(schema.days.c.day == day)
        return found[0] if found else None

    def computed(self) -> set[date]:
        """All days that are computed."""
        query = sa.select(schema.days.c.day).where(schema.days.c.topic == self.topic)
        return {row.day for row in self._rows(query)}

    def of_run(self, run_id: str) -> list[Day]:
        """The days whose last computation is this run's, in order."""
        return self._days(schema.days.c.run_id == run_id)

    def set_computed(
        self,
        day: date,
        *,
        cut: Offsets,
        run_id: str,
        tasks_seq: int,
        raw_lines: int,
        lines: int,
        backfills: int = 0,
        tallies: Sequence[Mapping[str, Any]] = (),
        skipped: Sequence[Mapping[str, Any]] = (),
    ) -> Day:
        """Record a computation in one transaction; what is known of the day's publication stays."""
        values = {
            "cut": dict(cut),
            "run_id": run_id,
            "tasks_seq": tasks_seq,
            "raw_lines": raw_lines,
            "lines": lines,
            "backfills": backfills,
        }
        statement = insert(schema.days).values(topic=self.topic, day=day, **values)
        statement = statement.on_conflict_do_update(
            index_elements=["topic", "day"], set_={**values, "computed_at": sa.func.now()}
        )

        def write() -> Day:
            with self.engine.begin() as connection:
                row = connection.execute(statement.returning(*schema.days.c)).one()
                replace(connection, (self.topic, TallyLayer.OFFLINE, day), tallies, skipped)
            return Day(**row._mapping)

        return patiently(write, PATIENCE_SECONDS)

    def online(self, day: date) -> Online:
        t = schema.event_days.c
        query = sa.select(t.partition, t.lines, t.last_offset).where(t.topic == self.topic, t.day == day)
        rows = self._rows(query)
        return Online(sum(r.lines for r in rows), {str(r.partition): r.last_offset for r in rows})

    def marked(self) -> list[date]:
        """The days that must be computed again and can be, in order."""
        known, expired = self._days(schema.days.c.topic == self.topic), self.expired()
        return self._out_of_date([each for each in known if each.day not in expired])

    def superseded_among(self, days: Collection[date]) -> list[date]:
        """Those of these days, all over, that are published and must be computed again, in order."""
        if not days:
            return []
        t = schema.days.c
        published = sa.and_(t.published_at.is_not(None), t.day < today(), _between(t.day, days))
        return self._out_of_date([each for each in self._days(published) if each.day in days])

    def with_lines(self) -> list[date]:
        """The days of event time (UTC) for which the speed layer counted lines, in order."""
        t = schema.event_days.c
        query = sa.select(t.day).distinct().where(t.topic == self.topic).order_by(t.day)
        return [row.day for row in self._rows(query)]

    def missed(self) -> list[date]:
        """The days of the last `LOOK_BACK` that have lines but were never computed, in order.

        Today, dropped days and those beyond the archive's retention are left out. The lines of such a day
        arrived after its night, or that night was not run. All of them may be erased since: what
        was computed of the day before a recovery has them still. Older days wait for a backfill: a person who
        loads the logs of years does not want to have them all computed tonight.
        """
        lines, days, dropped = schema.event_days.c, schema.days.c, schema.dropped_days.c
        now = today()
        computed = sa.select(days.day).where(days.topic == self.topic)
        gone = sa.select(dropped.day).where(dropped.topic == self.topic)
        expired = self.expired()
        query = (
            sa.select(lines.day)
            .distinct()
            .where(lines.topic == self.topic)
            .where(lines.day >= now - LOOK_BACK, lines.day < now)
            .where(lines.day.not_in(computed), lines.day.not_in(gone))
            .order_by(lines.day)
        )
        return [row.day for row in self._rows(query) if row.day not in expired]

    def expired(self) -> set[date]:
        """The days whose lines are not all in the archive any more: they cannot be computed again."""
        t = schema.archive_expired_days.c
        return {row.day for row in self._rows(sa.select(t.day).where(t.topic == self.topic))}

    def superseded(self, day: Day) -> str | None:
        """Why this computation is out of date, or None if it is not."""

        def read() -> str | None:
            with self.engine.connect() as connection:
                return out_of_date(connection, self.topic, [day]).get(day.day)

        return patiently(read, PATIENCE_SECONDS)

    def dropped(self, day: date) -> bool:
        """Whether the day's results are beyond retention."""
        return self.dropped_at(day) is not None

    def dropped_at(self, day: date) -> datetime | None:
        """When retention dropped the day's results; None if it did not."""
        t = schema.dropped_days.c
        rows = self._rows(sa.select(t.dropped_at).where(t.topic == self.topic, t.day == day))
        return rows[0].dropped_at if rows else None

    def now(self) -> datetime:
        """The time by the clock that also says when a day was computed."""
        now: datetime = self._rows(sa.select(sa.func.clock_timestamp()))[0][0]
        return now

    @contextmanager
    def locked(self, day: date) -> Iterator[None]:
        """Let only one caller at a time compute, compare or publish this day; the next one waits."""
        key = sa.func.hashtextextended(f"sluice day {self.topic} {day}", 0)
        with self.engine.connect() as connection:
            connection.execute(sa.select(sa.func.pg_advisory_lock(key)))
            connection.commit()  # the session's lock outlives the transaction, so none needs to stay open
            try:
                yield
            finally:
                connection.execute(sa.select(sa.func.pg_advisory_unlock(key)))
                connection.commit()

    def cuts(self) -> dict[int, set[int]]:
        """The positions up to which days were computed or published, by partition."""
        t = schema.days.c
        found: dict[int, set[int]] = {}
        for row in self._rows(sa.select(t.cut, t.published_cut).where(t.topic == self.topic)):
            for partition, position in [*row.cut.items(), *(row.published_cut or {}).items()]:
                found.setdefault(int(partition), set()).add(int(position))
        return found

    def _out_of_date(self, known: Sequence[Day]) -> list[date]:
        """Those of these days that are, in their order."""

        def read() -> dict[date, str]:
            with self.engine.connect() as connection:
                return out_of_date(connection, self.topic, known)

        late = patiently(read, PATIENCE_SECONDS)
        return [each.day for each in known if each.day in late]

    def _days(self, condition: sa.ColumnElement[bool]) -> list[Day]:
        query = sa.select(schema.days).where(schema.days.c.topic == self.topic, condition)
        return [Day(**row._mapping) for row in self._rows(query.order_by(schema.days.c.day))]

    def _rows(self, query: sa.Select[Any]) -> list[sa.Row[Any]]:
        def read() -> list[sa.Row[Any]]:
            with self.engine.connect() as connection:
                return list(connection.execute(query).all())

        return patiently(read, PATIENCE_SECONDS)


def published_now(connection: sa.Connection, topic: str, day: date, cut: Offsets) -> None:
    """Record, within the caller's transaction, that the day is published as computed up to `cut`."""
    t = schema.days
    statement = sa.update(t).where(t.c.topic == topic, t.c.day == day)
    connection.execute(statement.values(published_cut=dict(cut), published_at=sa.func.now()))


def out_of_date(connection: sa.Connection, topic: str, days: Sequence[Day]) -> dict[date, str]:
    """Why computations of days are out of date; only those that are. A few queries, however many days."""
    if not days:
        return {}
    wanted = [day.day for day in days]
    late, changed, filled = (
        _late(connection, topic, days, wanted),
        _changed_versions(connection, topic, days),
        _filled_since(connection, topic, days, wanted),
    )
    erased = erasures.redacted_since(connection, topic, {day.day: day.computed_at for day in days})
    why: dict[date, str] = {}
    for day in wanted:
        if day in late:
            why[day] = f"a line arrived at or beyond the cut in partition {', '.join(late[day])}"
        elif day in changed:
            why[day] = (
                f"task version {', '.join(changed[day])} began or ended below the cut after it was computed"
            )
        elif day in filled:
            why[day] = f"task version {', '.join(filled[day])} was filled backwards after it was computed"
        elif day in erased:
            why[day] = f"erasure {erased[day]} took lines of the day after it was computed"
    return why


def _late(
    connection: sa.Connection, topic: str, days: Sequence[Day], wanted: Sequence[date]
) -> dict[date, list[str]]:
    """The partitions in which lines came at or beyond the cut of a day."""
    t = schema.event_days.c
    query = sa.select(t.day, t.partition, t.last_offset).where(t.topic == topic, _between(t.day, wanted))
    cuts, found = {day.day: day.cut for day in days}, dict[date, list[str]]()
    for row in connection.execute(query):
        if row.day in cuts and row.last_offset >= cuts[row.day].get(str(row.partition), 0):
            found.setdefault(row.day, []).append(str(row.partition))
    return {day: sorted(partitions) for day, partitions in found.items()}


def _changed_versions(connection: sa.Connection, topic: str, days: Sequence[Day]) -> dict[date, list[str]]:
    """The versions that began or ended below the cut of a day in a commit that it did not know.

    Ranges that are over are more with each change of a task: only those are read that began or ended since.
    """
    ranges, commits = schema.task_ranges.c, schema.commits.c
    numbers = {day.tasks_seq for day in days}
    query = sa.select(commits.seq, commits.end).where(commits.topic == topic, commits.seq.in_(numbers))
    known: dict[int, Mapping[str, int]] = {row.seq: row.end for row in connection.execute(query)}
    # Where the speed layer had passed the cut by then, whatever began or ended later did so above it.
    days = [day for day in days if _reaches_below(known.get(day.tasks_seq, {}), day.cut)]
    if not days:
        return {}
    oldest = min(day.tasks_seq for day in days)
    since = (ranges.first_seq > oldest, ranges.end_seq > oldest, ranges.end_seq.is_(None))
    query = sa.select(
        ranges.task_id, ranges.version, ranges.first_seq, ranges.start, ranges.end, ranges.end_seq
    )
    rows = connection.execute(query.where(ranges.topic == topic, sa.or_(*since))).all()
    found: dict[date, list[str]] = {}
    for day in days:
        before = known.get(day.tasks_seq, {})
        for row in rows:
            began = row.first_seq > day.tasks_seq and _reaches_below(row.start, day.cut)
            ended = (
                row.end is not None
                and (row.end_seq is None or row.end_seq > day.tasks_seq)
                and all(row.end.get(p, 0) >= offset for p, offset in before.items())
                and _reaches_below(row.end, day.cut)
            )
            if began or ended:
                found.setdefault(day.day, []).append(f"{row.task_id}v{row.version}")
    return {day: sorted(versions) for day, versions in found.items()}


def _filled_since(
    connection: sa.Connection, topic: str, days: Sequence[Day], wanted: Sequence[date]
) -> dict[date, list[str]]:
    """The versions that were filled backwards for a day after it was computed, or are being filled."""
    t = schema.backfill_days.c
    query = sa.select(t.day, t.task_id, t.version, t.revision, t.projected)
    revisions, found = {day.day: day.backfills for day in days}, dict[date, list[str]]()
    for row in connection.execute(query.where(t.topic == topic, _between(t.day, wanted))):
        if row.day in revisions and (row.revision > revisions[row.day] or not row.projected):
            found.setdefault(row.day, []).append(f"{row.task_id}v{row.version}")
    return {day: sorted(versions) for day, versions in found.items()}


def _between(column: sa.ColumnElement[date], days: Collection[date]) -> sa.ColumnElement[bool]:
    return column.between(min(days), max(days))


def _reaches_below(offsets: Mapping[str, int], cut: Mapping[str, int]) -> bool:
    """Whether some partition has offsets from `offsets` on that are below the cut."""
    return any(offsets.get(p, 0) < end for p, end in cut.items())


def unpublished(engine: sa.Engine, only: Collection[tuple[str, date]] | None = None) -> list[Day]:
    """The days of all topics whose newest computation is not published yet.

    With `only`, exactly these (topic, day), published or not. They come in order of topic and day.
    """
    t = schema.days.c
    query = sa.select(schema.days).order_by(t.topic, t.day)
    if only is not None:
        query = query.where(sa.tuple_(t.topic, t.day).in_(only))
    else:
        again = t.published_at <= t.computed_at  # computed again at the same cut, such as with other tasks
        query = query.where(sa.or_(t.published_cut.is_distinct_from(t.cut), again))
    with engine.connect() as connection:
        return [Day(**row._mapping) for row in connection.execute(query)]
