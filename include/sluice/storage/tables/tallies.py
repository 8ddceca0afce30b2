"""What became of the lines that have a time, by task version and day of event time, in each layer.

A layer knows a day's numbers only if it counted all of the day's lines with a release that keeps them
(`known`); else they were not counted then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from sluice.storage.tables import schema

Version = tuple[int, int]


class TallyLayer(StrEnum):
    """Who counted the lines of a tally."""

    ONLINE = "online"  # the speed layer
    FILLED = "filled"  # a backfill
    OFFLINE = "offline"  # the batch layer


#: The topic itself, in the place of a task version.
TOPIC: Version = (0, 0)
#: What the speed layer and backfills counted together is what the batch layer counts.
ONLINE = (TallyLayer.ONLINE, TallyLayer.FILLED)
OFFLINE = (TallyLayer.OFFLINE,)
COUNTS = ("counted", "filtered", "unmatched", "too_long")
EPOCH = date(1970, 1, 1)
#: The day under which the sums of all days lie that retention dropped; no line is dated so.
DROPPED = date.min
#: Characters of a sample that people see.
SHOWN = 400


@dataclass(frozen=True)
class Tally:
    """How many lines with a time a task version counted, filtered out, and skipped."""

    counted: int = 0
    filtered: int = 0
    unmatched: int = 0
    too_long: int = 0

    @property
    def lines(self) -> int:
        return self.counted + self.filtered + self.unmatched + self.too_long

    @property
    def skipped(self) -> int:
        return self.unmatched + self.too_long

    @classmethod
    def sum(cls, tallies: Iterable[Tally]) -> Tally:
        """All of them together."""
        found = [(each.counted, each.filtered, each.unmatched, each.too_long) for each in tallies]
        return cls(*map(sum, zip(*found, strict=True))) if found else cls()


@dataclass(frozen=True)
class SkippedLine:
    """A line that a task version skipped; `line` is its beginning."""

    layer: str
    day: date
    kind: str  # unmatched, too_long
    reason: str
    partition: int
    offset: int
    line_in_record: int
    size: int  # of the whole line, in bytes
    line: bytes

    @property
    def text(self) -> str:
        """The beginning of the line, for a page."""
        return self.line.decode(errors="replace").replace("\0", "\ufffd")[:SHOWN]


def rows(table: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the engine's tables, with their days as dates."""
    return [{**row, "day": EPOCH + timedelta(days=row["day"])} for row in table]


def add(connection: sa.Connection, topic: str, tallies: Sequence[Mapping[str, Any]]) -> None:
    """Add what a batch of the speed layer did, within its transaction."""
    if not tallies:
        return
    statement = insert(schema.tallies)
    mine, new = schema.tallies.c, statement.excluded
    statement = statement.on_conflict_do_update(
        index_elements=[column.name for column in schema.tallies.primary_key],
        set_={name: mine[name] + new[name] for name in COUNTS},
    )
    connection.execute(statement, [{"topic": topic, "layer": TallyLayer.ONLINE, **row} for row in tallies])


def add_samples(connection: sa.Connection, topic: str, samples: Sequence[Mapping[str, Any]]) -> None:
    """Add samples of what a batch of the speed layer skipped, within its transaction."""
    if samples:
        statement = insert(schema.skipped_lines).on_conflict_do_nothing()
        connection.execute(
            statement, [{"topic": topic, "layer": TallyLayer.ONLINE, **row} for row in samples]
        )


def replace(
    connection: sa.Connection,
    where: tuple[str, TallyLayer, date],
    tallies: Sequence[Mapping[str, Any]],
    samples: Sequence[Mapping[str, Any]],
    *,
    version: Version | None = None,
) -> None:
    """Make these the rows of a topic, a layer and a day, or of one version among them."""
    topic, layer, day = where
    for table, found in ((schema.tallies, tallies), (schema.skipped_lines, samples)):
        t = table.c
        own = [t.topic == topic, t.layer == layer, t.day == day]
        if version is not None:
            own += [t.task_id == version[0], t.version == version[1]]
        connection.execute(sa.delete(table).where(*own))
        if found:
            connection.execute(
                sa.insert(table), [{"topic": topic, "layer": layer, **row, "day": day} for row in found]
            )


def of_day(engine: sa.Engine, topic: str, day: date, layers: Collection[TallyLayer]) -> dict[Version, Tally]:
    """The sums of these layers for a day, by task version; the topic is `TOPIC`."""
    t = schema.tallies.c
    with engine.connect() as connection:
        return _summed(connection, t.topic == topic, t.day == day, layers=layers)


def of_topic(
    connection: sa.Connection, topic: str, layers: Collection[TallyLayer] = ONLINE
) -> dict[Version, Tally]:
    """The sums of these layers over all days."""
    return _summed(connection, schema.tallies.c.topic == topic, layers=layers)


def of_topics(engine: sa.Engine, topics: Collection[str]) -> dict[Version, Tally]:
    """What became of the lines of all task versions of these topics."""
    with engine.connect() as connection:
        found = [of_topic(connection, topic) for topic in sorted(topics)]
    return {key: tally for each in found for key, tally in each.items() if key != TOPIC}


def of_version(
    engine: sa.Engine, topic: str, version: Version, layers: Collection[TallyLayer] = ONLINE
) -> dict[date, Tally]:
    """A version's sums by day."""
    t = schema.tallies.c
    query = sa.select(t.day, *(sa.func.sum(t[name]) for name in COUNTS)).where(
        t.topic == topic,
        t.task_id == version[0],
        t.version == version[1],
        t.day > DROPPED,
        t.layer.in_(layers),
    )
    with engine.connect() as connection:
        return {
            day: Tally(*map(int, counts))
            for day, *counts in connection.execute(query.group_by(t.day).order_by(t.day))
        }


def known(engine: sa.Engine, topic: str, day: date, layer: TallyLayer) -> bool:
    """Whether the layer tallied each of the day's lines; if not, some were counted by an earlier release."""
    t, event, computed = schema.tallies.c, schema.event_days.c, schema.days.c
    lines = {
        TallyLayer.ONLINE: sa.select(sa.func.sum(event.lines)).where(event.topic == topic, event.day == day),
        TallyLayer.OFFLINE: sa.select(computed.lines).where(computed.topic == topic, computed.day == day),
    }[layer]
    own = sa.select(t.counted + t.unmatched).where(
        t.topic == topic, t.layer == layer, t.day == day, t.task_id == TOPIC[0], t.version == TOPIC[1]
    )
    with engine.connect() as connection:
        return _less(connection, lines, own) == 0


def unknown_lines(connection: sa.Connection, topic: str) -> int:
    """How many of the lines that the speed layer counted an earlier release counted, without a tally."""
    t, event = schema.tallies.c, schema.event_days.c
    all_ = sa.select(sa.func.sum(event.lines)).where(event.topic == topic)
    own = sa.select(sa.func.sum(t.counted + t.unmatched)).where(
        t.topic == topic, t.layer == TallyLayer.ONLINE, t.task_id == TOPIC[0], t.version == TOPIC[1]
    )
    return _less(connection, all_, own)


def samples(
    engine: sa.Engine,
    topic: str,
    version: Version,
    *,
    layers: Collection[TallyLayer] = ONLINE,
    limit: int = 20,
) -> list[SkippedLine]:
    """Samples of what a version skipped, the newest days first."""
    t = schema.skipped_lines.c
    query = (
        sa.select(*(t["bytes" if name == "size" else name] for name in SkippedLine.__dataclass_fields__))
        .where(t.topic == topic, t.task_id == version[0], t.version == version[1], t.layer.in_(layers))
        .order_by(t.day.desc(), t.kind, t.offset.desc(), t.partition, t.line_in_record)
        .limit(limit)
    )
    with engine.connect() as connection:
        return [SkippedLine(*row) for row in connection.execute(query)]


def sampled(connection: sa.Connection, topic: str) -> dict[tuple[int, int, str, date], int]:
    """How many samples of the speed layer there are, by task id, version, kind and day."""
    t = schema.skipped_lines.c
    keys = (t.task_id, t.version, t.kind, t.day)
    query = (
        sa.select(*keys, sa.func.count())
        .where(t.topic == topic, t.layer == TallyLayer.ONLINE)
        .group_by(*keys)
    )
    return {(row[0], row[1], row[2], row[3]): int(row[4]) for row in connection.execute(query)}


def forget(connection: sa.Connection, topic: str, days: Collection[date]) -> None:
    """Delete the samples of these days: lines are kept no longer than results. The numbers stay."""
    t = schema.skipped_lines
    connection.execute(sa.delete(t).where(t.c.topic == topic, t.c.day.in_(days)))


def fold(engine: sa.Engine, topic: str) -> int:
    """Add up what was counted on the days that retention dropped; returns how many rows went.

    It is one transaction. Nobody asks for such a day any more, only for the sums over all days. What the
    batch layer counted on it has no such sum, and goes.
    """
    t, dropped = schema.tallies, schema.dropped_days.c
    days = sa.select(dropped.day).where(dropped.topic == topic)
    keys = ("topic", "layer", "task_id", "version")
    with engine.begin() as connection:
        old = sa.delete(t).where(t.c.topic == topic, t.c.day.in_(days))
        gone = connection.execute(old.returning(*(t.c[name] for name in (*keys, *COUNTS)))).mappings().all()
        sums: dict[tuple[Any, ...], Tally] = {}
        for row in gone:
            if row["layer"] in ONLINE:
                key = tuple(row[name] for name in keys)
                own = Tally(*(row[name] for name in COUNTS))
                sums[key] = Tally.sum([sums.get(key, Tally()), own])
        if sums:
            statement = insert(t)
            statement = statement.on_conflict_do_update(
                index_elements=[column.name for column in t.primary_key],
                set_={name: t.c[name] + statement.excluded[name] for name in COUNTS},
            )
            values = [
                {**dict(zip(keys, key, strict=True)), "day": DROPPED, **vars(sums[key])} for key in sums
            ]
            connection.execute(statement, values)
    return len(gone)


def _less(connection: sa.Connection, one: sa.Select[Any], other: sa.Select[Any]) -> int:
    """The difference of two numbers, as of one moment."""
    numbers = (sa.func.coalesce(each.scalar_subquery(), 0) for each in (one, other))
    row = connection.execute(sa.select(*numbers)).one()
    return int(row[0]) - int(row[1])


def _summed(
    connection: sa.Connection, *conditions: sa.ColumnElement[bool], layers: Collection[TallyLayer]
) -> dict[Version, Tally]:
    t = schema.tallies.c
    query = sa.select(t.task_id, t.version, *(sa.func.sum(t[name]) for name in COUNTS))
    query = query.where(*conditions, t.layer.in_(layers)).group_by(t.task_id, t.version)
    return {(row[0], row[1]): Tally(*map(int, row[2:])) for row in connection.execute(query)}
