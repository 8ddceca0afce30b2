"""Finds what is old enough for retention, and deletes it in PostgreSQL.

Each deletion is one transaction. Age is measured from arrival. The *floor* is where the speed layer was when
the retention period began: everything below it arrived earlier. A day of event time is *expired* once all of
its lines are below the floor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from sluice.storage.tables import folding, open_periods, schema, tallies
from sluice.storage.tables.backfills import BackfillPointer, next_revision
from sluice.storage.tables.commits import ROWS_A_STATEMENT, STORED_AS
from sluice.storage.tables.epochs import PeriodKey, StatePeriod

COUNTS = (STORED_AS["lines"], "doubled", "counted", "dead", "redacted")


@dataclass(frozen=True)
class Floor:
    """The newest commit that is older than retention; offsets below its end have expired."""

    seq: int
    end: Mapping[str, int]


@dataclass(frozen=True)
class LastLine:
    """The last offset of a partition that held a line of that day."""

    day: date
    partition: int
    last_offset: int


def expired_days(lines: Iterable[LastLine], end: Mapping[str, int]) -> set[date]:
    """The days whose lines are all below these offsets."""
    days: dict[date, bool] = {}
    for each in lines:
        below = each.last_offset < end.get(str(each.partition), 0)
        days[each.day] = days.get(each.day, True) and below
    return {day for day, below in days.items() if below}


class RetentionBook:
    """One topic's rows that retention reads and deletes."""

    def __init__(self, engine: sa.Engine, topic: str) -> None:
        self.engine = engine
        self.topic = topic

    def floor(self, before: datetime) -> Floor | None:
        """The newest commit made before then; None if there is none, so nothing has expired."""
        c = schema.commits.c
        query = sa.select(c.seq, c.end).where(c.topic == self.topic, c.committed_at < before)
        for row in self._rows(query.order_by(c.seq.desc()).limit(1)):
            return Floor(row.seq, dict(row.end))
        return None

    def last_lines(self) -> list[LastLine]:
        t = schema.event_days.c
        query = sa.select(t.day, t.partition, t.last_offset).where(t.topic == self.topic)
        return [LastLine(row.day, row.partition, row.last_offset) for row in self._rows(query)]

    def versions(self) -> list[tuple[int, int]]:
        """The task versions that have state."""
        found: set[tuple[int, int]] = set()
        for t in (schema.state_periods.c, schema.backfill_blocks.c):
            query = sa.select(t.task_id, t.version).distinct().where(t.topic == self.topic)
            found |= {(row.task_id, row.version) for row in self._rows(query)}
        return sorted(found)

    def periods(self, task_id: int, version: int) -> list[int]:
        """The starts of the periods for which a version has state, in order."""
        found: set[int] = set()
        for t in (schema.state_periods.c, schema.backfill_blocks.c):
            query = sa.select(t.period_start).distinct()
            same = (t.topic == self.topic, t.task_id == task_id, t.version == version)
            found |= {row.period_start for row in self._rows(query.where(*same))}
        return sorted(found)

    def mark_dropped(self, days: Collection[date]) -> list[date]:
        """Take these days out of both layers' comparison for ever; returns the new ones in order.

        A period that waits for such a day can never be compared, so it waits no longer.
        """
        if not days:
            return []
        t = schema.dropped_days
        rows = [{"topic": self.topic, "day": day} for day in sorted(days)]
        statement = insert(t).on_conflict_do_nothing().returning(t.c.day)
        with self.engine.begin() as connection:
            for day in days:
                open_periods.remove_touching(connection, self.topic, day)
            tallies.forget(connection, self.topic, days)
            return sorted(connection.execute(statement.values(rows)).scalars())

    def dropped(self) -> set[date]:
        t = schema.dropped_days.c
        return {row.day for row in self._rows(sa.select(t.day).where(t.topic == self.topic))}

    def forget_periods(self, periods: Sequence[StatePeriod]) -> tuple[list[PeriodKey], int]:
        """Delete those of these periods that are unchanged since they were read; one transaction.

        Returns which those are, and the newest commit. Columns of the periods up to that commit are of no use
        to anybody: a batch that is built on them cannot be committed.
        """
        t, c = schema.state_periods, schema.commits.c
        columns = (t.c.task_id, t.c.version, t.c.period_start, t.c.seq)
        gone: list[PeriodKey] = []
        with self.engine.begin() as connection:
            for begin in range(0, len(periods), ROWS_A_STATEMENT):
                some = [(*each.key, each.seq) for each in periods[begin : begin + ROWS_A_STATEMENT]]
                same = (t.c.topic == self.topic, sa.tuple_(*columns).in_(some))
                found = connection.execute(sa.delete(t).where(*same).returning(*columns[:3]))
                gone += [(row.task_id, row.version, row.period_start) for row in found]
            newest = sa.select(sa.func.max(c.seq)).where(c.topic == self.topic)
            return gone, connection.scalar(newest) or 0

    def forget_filled(self, filled: Sequence[BackfillPointer]) -> None:
        """Delete those of these pointers of backfills that were not replaced; one transaction."""
        t = schema.backfill_blocks
        with self.engine.begin() as connection:
            for begin in range(0, len(filled), ROWS_A_STATEMENT):
                names = [(each.row, each.column) for each in filled[begin : begin + ROWS_A_STATEMENT]]
                connection.execute(sa.delete(t).where(sa.tuple_(t.c.row, t.c.column).in_(names)))
            next_revision(connection, self.topic)

    def prune_epochs(self) -> None:
        """Delete the epochs that ended before every period that has state began; the newest stays."""
        t, p = schema.epochs, schema.state_periods.c
        oldest = sa.select(sa.func.min(p.since)).where(p.topic == self.topic)
        with self.engine.begin() as connection:
            query = sa.select(t.c.first_seq).where(t.c.topic == self.topic).order_by(t.c.first_seq.desc())
            since, firsts = connection.scalar(oldest), list(connection.scalars(query))
            kept = next((first for first in firsts if since is not None and first <= since), None)
            kept = firsts[0] if since is None and firsts else kept
            if kept is not None:
                connection.execute(sa.delete(t).where(t.c.topic == self.topic, t.c.first_seq < kept))

    def prune_commits(self, floor: Floor) -> int:
        """Delete the commits before the floor and before the newest projected one; returns how many rows.

        Their sums are kept. Commits that the book of days refers to stay.
        """
        c, days = schema.commits, schema.days.c
        referred = sa.select(days.tasks_seq).where(days.topic == self.topic)
        projected = sa.select(schema.projections.c.seq).where(schema.projections.c.topic == self.topic)
        old = (
            c.c.topic == self.topic,
            c.c.seq < floor.seq,
            c.c.seq < sa.func.coalesce(projected.scalar_subquery(), 0),
            c.c.seq.not_in(referred),
        )
        with self.engine.begin() as connection:
            folding.alone(connection, self.topic)
            gone = connection.execute(sa.delete(c).where(*old).returning(c.c.counts)).scalars().all()
            sums = {name: sum(int(counts.get(name, 0)) for counts in gone) for name in COUNTS}
            if gone:
                add_sums(connection, self.topic, {**sums, "seq": floor.seq})
        return len(gone)

    def prune_dead_letters(self, before: datetime) -> int:
        """Delete those that came before then, but not those that decide what the batch layer counts."""
        t = schema.dead_letters.c
        old = sa.and_(t.arrived_at < before, t.reason.not_like("dimension over %"))
        return self._prune(schema.dead_letters, old, "dead_letters")

    def prune_ledger(self, before: datetime) -> int:
        """Delete the ledger's files whose last line was counted before then."""
        return self._prune(schema.ledger, schema.ledger.c.last_seen < before, "files")

    def _prune(self, table: sa.Table, old: sa.ColumnElement[bool], name: str) -> int:
        """Delete the topic's old rows, and add their number to the sum of that name."""
        with self.engine.begin() as connection:
            gone = connection.execute(sa.delete(table).where(table.c.topic == self.topic, old)).rowcount
            if gone:
                add_sums(connection, self.topic, {name: gone})
        return gone

    def _rows(self, query: sa.Select[Any]) -> Sequence[sa.Row[Any]]:
        with self.engine.connect() as connection:
            return connection.execute(query).all()


def add_sums(connection: sa.Connection, topic: str, counts: Mapping[str, int]) -> None:
    """Add to the sums of what was deleted of a topic; of `seq` the larger value is kept."""
    t = schema.pruned
    names = [column.name for column in t.c if column.name != "topic"]
    statement = insert(t).values(topic=topic, **{name: counts.get(name, 0) for name in names})
    new = statement.excluded
    sums: dict[str, Any] = {name: t.c[name] + new[name] for name in names}
    sums["seq"] = sa.case((t.c.seq > new.seq, t.c.seq), else_=new.seq)
    connection.execute(statement.on_conflict_do_update(index_elements=["topic"], set_=sums))


def topics(engine: sa.Engine) -> list[str]:
    """Every topic that was ever counted."""
    with engine.connect() as connection:
        return sorted(connection.execute(sa.select(schema.commits.c.topic).distinct()).scalars())
