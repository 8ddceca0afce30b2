"""Sums up old commits: those of a day (UTC) become one row, so the book grows by a row a day.

The row of a day is its last commit, with the first one's start and the sums of all counts. So the chain of
offsets stays whole, and sums over all commits stay what they were. These rows are never folded into another:

- commits younger than a given time, and the newest one;
- the newest commit whose results are in HBase, and all after it;
- commits that the book of days refers to;
- the last commit of a topic that was deleted and made again.

Each portion is one transaction. It touches no commit that a writer, a projector or a reader of new results
asks for, so it runs beside them. A run that was killed is repeated by the next one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from sluice.runtime.crash_points import crash_point
from sluice.storage.tables import schema

#: Commits that one transaction looks at; it folds about as many. They take half a second.
PORTION = 10_000

_c = schema.commits.c


@dataclass(frozen=True)
class DayFold:
    """A commit, and the ones directly before it that become part of it."""

    seq: int
    first: int  # the first commit of them
    start: Mapping[str, int]
    counts: Mapping[str, int]  # of all of them together


def fold(engine: sa.Engine, topic: str, before: datetime, portion: int = PORTION) -> int:
    """Fold the topic's commits made before that time; returns how many rows that saved.

    portion: at least two.
    """
    saved, after = 0, 0
    with engine.connect() as connection:
        bound = _bound(connection, topic, before)
    while True:
        with engine.begin() as connection:
            alone(connection, topic)
            rows = _portion(connection, topic, after, bound, portion)
            for each in folds_of(rows, _referred(connection, topic)):
                saved += _carry_out(connection, topic, each)
            crash_point("commits_folded")
        if len(rows) < portion:
            return saved
        after = rows[-1].seq - 1  # the portion's last row goes on to take in what belongs to its day


def alone(connection: sa.Connection, topic: str) -> None:
    """Until the transaction ends, let nobody else fold the topic's commits or delete old ones."""
    key = sa.func.hashtextextended("sluice commits " + topic, 0)
    connection.execute(sa.select(sa.func.pg_advisory_xact_lock(key)))


def folds_of(rows: Iterable[sa.Row[Any]], kept: frozenset[int]) -> Iterator[DayFold]:
    """The commits that stay of these, in order, each with what is folded into it; `kept` stay as they are."""
    first: sa.Row[Any] | None = None
    counts: Counter[str] = Counter()
    before: sa.Row[Any] | None = None
    for row in rows:
        if before is not None and first is not None and (before.seq in kept or _kind(before) != _kind(row)):
            yield DayFold(before.seq, first.seq, first.start, counts)
            first = None
        if first is None:
            first, counts = row, Counter()
        counts.update({name: int(number) for name, number in row.counts.items()})
        before = row
    if before is not None and first is not None:
        yield DayFold(before.seq, first.seq, first.start, counts)


def _kind(row: sa.Row[Any]) -> tuple[object, str]:
    """The day on which the commit was made, and the Kafka topic that its offsets refer to."""
    at = row.committed_at if row.committed_at.tzinfo else row.committed_at.replace(tzinfo=UTC)
    return at.astimezone(UTC).date(), row.topic_id


def _bound(connection: sa.Connection, topic: str, before: datetime) -> int:
    """The last commit that may be folded; 0 for none."""
    old = sa.select(_c.seq).where(_c.topic == topic, _c.committed_at < before)
    newest = connection.scalar(old.order_by(_c.seq.desc()).limit(1))
    projected = sa.select(schema.projections.c.seq).where(schema.projections.c.topic == topic)
    return min(newest or 0, connection.scalar(projected) or 0)


def _portion(
    connection: sa.Connection, topic: str, after: int, bound: int, most: int
) -> Sequence[sa.Row[Any]]:
    query: sa.Select[Any] = sa.select(_c.seq, _c.committed_at, _c.topic_id, _c.start, _c.counts)
    query = query.where(_c.topic == topic, _c.seq > after, _c.seq <= bound)
    found: Sequence[sa.Row[Any]] = connection.execute(query.order_by(_c.seq).limit(most)).all()
    return found


def _referred(connection: sa.Connection, topic: str) -> frozenset[int]:
    days = schema.days.c
    return frozenset(connection.scalars(sa.select(days.tasks_seq).where(days.topic == topic)))


def _carry_out(connection: sa.Connection, topic: str, one: DayFold) -> int:
    """Make the rows one; returns how many are gone."""
    if one.first == one.seq:
        return 0
    taken = sa.delete(schema.commits).where(_c.topic == topic, _c.seq >= one.first, _c.seq < one.seq)
    gone = connection.execute(taken).rowcount
    whole = sa.update(schema.commits).where(_c.topic == topic, _c.seq == one.seq)
    connection.execute(whole.values(start=dict(one.start), counts=dict(one.counts)))
    return gone
