"""What a topic's tasks had counted of the archive's lines, put on the list of what is counted again.

A rebuild counts it as soon as the platform runs (`batch.rebuild`), and readers say so until then. A version's
lost periods are those in which the archive's files within its ranges have lines, and those of its filled
days.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import sqlalchemy as sa

from sluice.batch.task_versions import ranges_of
from sluice.engine.plan import Range
from sluice.runtime.days import DAY_MS, begin_ms
from sluice.storage.tables import erasures, recounts, schema
from sluice.storage.tables.backfills import Backfills, BackfillState
from sluice.storage.tables.epochs import PeriodKey
from sluice.storage.tables.retention import RetentionBook
from sluice.tasks.period import Period
from sluice.tasks.store import TaskStore

WHY = "its state was lost with PostgreSQL"
ASK_AGAIN = "PostgreSQL was lost while it ran: ask for it again"

#: A stretch of event time, from its first to its last line, in ms since the epoch.
Stretch = tuple[int, int]


@dataclass(frozen=True)
class FileDays:
    """Where an archive file's records lie, and in which stretches of each day its lines."""

    partition: int
    first: int
    next: int
    days: Mapping[date, Sequence[Stretch]]


def forget_broken_off(connection: sa.Connection) -> None:
    """Bring the books to a database without its commits: backfills ended, and none of them is pruned.

    An erasure that is not finished says so again: it goes on when its command is given once more.
    """
    b, p = schema.backfills, schema.pruned
    open_ = b.c.state.in_([BackfillState.REQUESTED, BackfillState.RUNNING])
    connection.execute(sa.update(b).where(open_).values(state=BackfillState.FAILED, message=ASK_AGAIN))
    counted = {column.name: 0 for column in p.c if column.name not in ("topic", "files")}
    connection.execute(sa.update(p).values(counted))
    erasures.tell(connection)


def end_ranges_at(database: sa.Engine, topic: str, ends: Mapping[int, int]) -> None:
    """Let no range of a version begin or end behind the archive's end, by partition.

    What lies behind is counted once more, for the versions that are active now. So the ranges say that, too.
    """
    t = schema.task_ranges
    keys = (t.c.task_id, t.c.version, t.c.first_seq)
    query = sa.select(*keys, t.c.start, t.c.end).where(t.c.topic == topic)
    with database.begin() as connection:
        for row in connection.execute(query).all():
            own = [column == value for column, value in zip(keys, row, strict=False)]
            said = {"start": row.start} if row.end is None else {"start": row.start, "end": row.end}
            clipped = {name: _clipped(positions, ends) for name, positions in said.items()}
            if clipped != said:
                connection.execute(sa.update(t).where(*own).values(clipped))


def _clipped(positions: Mapping[str, int], ends: Mapping[int, int]) -> dict[str, int]:
    return {number: min(position, ends.get(int(number), 0)) for number, position in positions.items()}


def set_aside(database: sa.Engine, topic: str) -> int:
    """Put the topic's lost periods on the list; returns how many they are."""
    keys = sorted(lost_periods(database, topic))
    rows = [{**recounts.row_of(topic, key), "why": WHY} for key in keys]
    with database.begin() as connection:
        recounts.put(connection, rows, {"why": WHY})
        recounts.tell(connection, topic)
    return len(keys)


def lost_periods(database: sa.Engine, topic: str) -> Iterator[PeriodKey]:
    """The periods of which versions had counted lines, without days that retention dropped."""
    store, files = TaskStore(database), _files(database, topic, RetentionBook(database, topic).dropped())
    filled: dict[tuple[int, int], set[date]] = {}
    for each in Backfills(database).filled(topic):
        filled.setdefault((each.task_id, each.version), set()).add(each.day)
    for version, ranges in ranges_of(database, topic).items():
        span = store.version(*version).spec.span
        found = [stretch for file in files for stretch in _counted(file, ranges, filled.get(version, ()))]
        yield from ((*version, start) for start in starts(span, found))


def _counted(file: FileDays, ranges: Sequence[Range], filled: Collection[date]) -> Iterator[Stretch]:
    inside = any(_overlaps(file, each) for each in ranges)
    for day, stretches in file.days.items():
        if inside or day in filled:
            yield from stretches


def _overlaps(file: FileDays, range_: Range) -> bool:
    start, end = dict(range_.start), None if range_.end is None else dict(range_.end)
    begun = file.next > start.get(file.partition, 0)
    return begun and (end is None or file.first < end.get(file.partition, 0))


def starts(span: Period, stretches: Iterable[Stretch]) -> Iterator[int]:
    """The starts of the periods that touch one of the stretches, each once and in order."""
    following: int | None = None
    for first, last in sorted(stretches):
        at = span.start(first)
        while at <= last:
            if following is None or at >= following:
                yield at
                following = span.end(at)
            at = max(span.end(at), following)


def _files(database: sa.Engine, topic: str, dropped: Collection[date]) -> list[FileDays]:
    t = schema.archive_files.c
    query = sa.select(t.partition, t.first, t.next, t.days).where(t.topic == topic, t.lines > 0)
    with database.connect() as connection:
        return [
            FileDays(row.partition, row.first, row.next, dict(_days(row.days, dropped)))
            for row in connection.execute(query)
        ]


def _days(
    said: Mapping[str, int | list[int]], dropped: Collection[date]
) -> Iterator[tuple[date, list[Stretch]]]:
    for name, each in said.items():
        if (day := date.fromisoformat(name)) in dropped:
            continue
        begin = begin_ms(day)
        whole = [begin, begin + DAY_MS - 1]  # an older file does not say which stretches
        ends = each[1:] if isinstance(each, list) else whole
        yield day, list(zip(ends[::2], ends[1::2], strict=True))
