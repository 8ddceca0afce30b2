"""What Kafka may have lost, until it is settled that the front-ends sent it again (`schema.log_eras`).

A partition's log is *open* from its next leader's epoch on: a broker that starts again may have lost the end
of its log, whether somebody had read it or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from sluice.runtime.positions import NO_EPOCH, position_at
from sluice.storage.tables import schema

#: A settled epoch that no leader has: a person asks again.
ASKED = -2
#: The clocks of PostgreSQL, of Kafka and of the archiver's host differ by less.
CLOCKS = timedelta(hours=1)

_C = schema.log_eras.c


class LossesOpen(RuntimeError):
    """Kafka lost records that a layer had read, and they may still be sent again."""

    def __init__(self, topic: str, partitions: Iterable[int]) -> None:
        super().__init__(
            f"Kafka lost records of topic {topic!r}, partition {', '.join(map(str, partitions))}, that had "
            "been read: the archive has them only once the front-ends have sent them again. See the alerts "
            "(`sluice status`)"
        )


@dataclass(frozen=True)
class OpenLoss:
    """A partition's log, from an epoch on before which Kafka may have lost records.

    begins, reached: the offsets [begins, reached) of the era before had been read and are lost; in era 0
    nobody had read what may be lost. settled_epoch: of the era's last loss that was settled; None: none was.
    """

    topic: str
    partition: int
    era: int
    epoch: int
    begins: int
    reached: int
    found_at: datetime
    settled_epoch: int | None

    @property
    def asked(self) -> bool:
        """Whether a person asks for it again."""
        return self.settled_epoch == ASKED

    @property
    def of_read(self) -> bool:
        """Whether records that a layer had read are among what was lost."""
        return self.era > 0 and (self.settled_epoch is None or self.asked)

    @property
    def alert(self) -> str:
        """The name of the alert about it."""
        return f"lost {self.topic}/{self.partition}: offset {self.begins}, era {self.era}"


_COLUMNS = [_C[name] for name in OpenLoss.__dataclass_fields__]


@dataclass(frozen=True, order=True)
class Unarchived:
    """Positions [first, next) that a layer had read and Kafka lost before they were archived."""

    partition: int
    first: int
    next: int


def open_losses(engine: sa.Engine) -> list[OpenLoss]:
    """All that is open, in order of topic and partition.

    What began with another volume of Kafka's is open once it was looked at.
    """
    return _read(engine, _C.settled_epoch.is_distinct_from(_C.epoch) & (_C.epoch >= NO_EPOCH))


def eras_once_settled(connection: sa.Connection, topic: str) -> dict[str, int]:
    """The newest era of each of the topic's partitions, 0 left out. Raises LossesOpen.

    One statement reads both, so an era that begins meanwhile is in neither.
    """
    rows = connection.execute(sa.select(*_COLUMNS).where(_C.topic == topic).order_by(_C.partition, _C.era))
    found = [OpenLoss(**row._mapping) for row in rows]
    if unsettled := [each for each in found if each.settled_epoch != each.epoch and each.of_read]:
        raise LossesOpen(topic, sorted({each.partition for each in unsettled}))
    return {str(each.partition): each.era for each in found if each.era}


def of_topic(engine: sa.Engine, topic: str) -> list[OpenLoss]:
    """All that ever was open of a topic, as it is once a person asks."""
    return [replace(each, settled_epoch=ASKED) for each in _read(engine, _C.topic == topic)]


def ask(engine: sa.Engine, topic: str) -> None:
    """Open all that ever was open of a topic, because a person asks."""
    with engine.begin() as connection:
        connection.execute(sa.update(schema.log_eras).where(_C.topic == topic).values(settled_epoch=ASKED))


def _read(engine: sa.Engine, which: sa.ColumnElement[bool]) -> list[OpenLoss]:
    query = sa.select(*_COLUMNS).where(which)
    with engine.connect() as connection:
        rows = connection.execute(query.order_by(_C.topic, _C.partition, _C.era))
        return [OpenLoss(**row._mapping) for row in rows]


def settle(engine: sa.Engine, losses: Iterable[OpenLoss]) -> None:
    """Close these, each only if no other epoch began since it was read."""
    with engine.begin() as connection:
        for each in losses:
            own = (_C.topic == each.topic, _C.partition == each.partition, _C.era == each.era)
            known = sa.update(schema.log_eras).where(*own, _C.epoch == each.epoch)
            connection.execute(known.values(settled_epoch=each.epoch))


def unarchived(engine: sa.Engine, losses: Iterable[OpenLoss]) -> list[Unarchived]:
    """What the archive lacks of what these losses took and somebody had read, in order."""
    c, found = schema.archive_files.c, []
    with engine.connect() as connection:
        for each in losses:
            if not each.of_read:
                continue
            own = (c.topic == each.topic, c.partition == each.partition, c.lines > 0)
            older = sa.select(sa.func.max(c.next)).where(*own, c.first < position_at(each.era, 0))
            archived, read = connection.scalar(older) or 0, position_at(each.era - 1, each.reached)
            if archived < read:
                found.append(Unarchived(each.partition, int(archived), read))
    return sorted(found)


def alerts_of(engine: sa.Engine, topic: str, lacking: Iterable[Unarchived]) -> list[str]:
    """The names of the archive's alerts about these."""
    c, found = schema.archive_losses.c, []
    with engine.connect() as connection:
        for each in lacking:
            own = (c.topic == topic, c.partition == each.partition)
            query = sa.select(c.first, c.next).where(*own, c.first < each.next, c.next > each.first)
            rows = connection.execute(query.order_by(c.first))
            found += [f"lost {topic}/{each.partition}: {row.first}-{row.next}" for row in rows]
    return found


def committed(engine: sa.Engine, topic: str) -> dict[int, int]:
    """Up to which position the speed layer has counted each partition."""
    c = schema.commits.c
    newest = sa.select(c.end).where(c.topic == topic).order_by(c.seq.desc()).limit(1)
    with engine.connect() as connection:
        end: Mapping[str, int] = connection.scalar(newest) or {}
    return {int(partition): int(position) for partition, position in end.items()}


def counted_files(engine: sa.Engine, topic: str) -> list[Mapping[str, Any]]:
    """The rows of the topic's byte ledger."""
    t = schema.ledger.c
    query = sa.select(t.host, t.src_file, t.starts, t.ends).where(t.topic == topic)
    with engine.connect() as connection:
        return [dict(row._mapping) for row in connection.execute(query)]


def counted_elsewhere(engine: sa.Engine, topic: str, hosts: Iterable[str]) -> list[Mapping[str, Any]]:
    """What the byte ledgers of other topics have of these hosts' files; several rows may be about a file."""
    t = schema.ledger.c
    query = sa.select(t.host, t.src_file, t.starts, t.ends).where(t.topic != topic, t.host.in_(hosts))
    with engine.connect() as connection:
        return [dict(row._mapping) for row in connection.execute(query)]


def counted_since(engine: sa.Engine, topic: str, since: datetime) -> set[tuple[str, str]]:
    """The files (host, name) of which a line was counted since then."""
    t = schema.ledger.c
    query = sa.select(t.host, t.src_file).where(t.topic == topic, t.last_seen > since)
    with engine.connect() as connection:
        return {(row.host, row.src_file) for row in connection.execute(query)}


def forgotten_files(engine: sa.Engine, topic: str) -> int:
    """How many files retention deleted from the ledger: their lines would count again."""
    with engine.connect() as connection:
        return connection.scalar(sa.select(schema.pruned.c.files).where(schema.pruned.c.topic == topic)) or 0


def mark_days(engine: sa.Engine, topic: str, last: Mapping[tuple[date, int], int]) -> None:
    """Have these days computed again if they were computed before: {(day, partition): last new position}.

    The speed layer does not do it, because it has counted these lines before.
    """
    t = schema.event_days
    with engine.begin() as connection:
        for (day, partition), position in last.items():
            own = (t.c.topic == topic, t.c.day == day, t.c.partition == partition)
            below = sa.update(t).where(*own, t.c.last_offset < position)
            connection.execute(below.values(last_offset=position))
