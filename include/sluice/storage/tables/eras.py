"""The eras of each partition's log, and how a new one begins (`runtime.positions`).

The row of a partition's newest era names the newest epoch of its leader that was looked at. A commit
of the speed layer holds that row while it is written, and an era begins under its lock. So an era
is never decided upon beside a commit that the decision should have known.

Another volume of Kafka's begins an era in each log of which records may have been read that it does not have
(`volume_changed`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from sluice.runtime.positions import NO_EPOCH, Era, PartitionLog, before_a_look, era_of, offset_of
from sluice.storage.tables import schema

_C = schema.log_eras.c


class LogMoved(RuntimeError):
    """A partition's log has another leader's epoch than the one at which its records were read.

    They may not be what Kafka has at their offsets now: look at the log again, and read them again.
    """

    def __init__(self, topic: str, partitions: Iterable[int]) -> None:
        numbers = ", ".join(map(str, sorted(partitions)))
        super().__init__(f"topic {topic!r}: the leader of partition {numbers} changed while it was read")


@dataclass(frozen=True)
class KnownLog:
    """What was known of a partition when Kafka was asked. reached: up to where its newest era was read."""

    newest: Era | None
    reached: int


@dataclass(frozen=True)
class LookedAt:
    """A partition's log as Kafka has it now.

    cut: the offset from which on its records may be others than those at the epoch that was known.
    """

    topic_id: str
    epoch: int
    cut: int
    known: KnownLog


def topics(engine: sa.Engine) -> set[str]:
    """All topics of which a partition was ever looked at."""
    with engine.connect() as connection:
        return set(connection.scalars(sa.select(_C.topic).distinct()))


def logs(engine: sa.Engine, topic: str) -> dict[int, PartitionLog]:
    """Each partition that was ever looked at, with all eras of its log."""
    with engine.connect() as connection:
        return _read(connection, topic)


def known(engine: sa.Engine, topic: str, topic_id: str, partitions: Iterable[int]) -> dict[int, KnownLog]:
    """What is known of these partitions before Kafka is asked where they end. topic_id: Kafka's, of now."""
    with engine.connect() as connection:
        there = _read(connection, topic)
        found = {}
        for number in partitions:
            newest = there[number].newest if number in there else None
            first = newest or Era(0, _counted_id(connection, topic) or topic_id, 0, 0)
            found[number] = KnownLog(newest, _reached(connection, topic, number, first))
        return found


def looked_at(engine: sa.Engine, topic: str, found: Mapping[int, LookedAt]) -> list[int]:
    """Book what Kafka has of these partitions; returns those that somebody else looked at meanwhile.

    An era begins where one of the layers had read records that Kafka does not have now.
    """
    stale = []
    with engine.begin() as connection:
        _lock(connection, topic)
        now = _read(connection, topic)
        for partition, log in sorted(found.items()):
            before = now[partition].newest if partition in now else None
            if before != log.known.newest:
                stale.append(partition)
                continue
            if before is None:  # the first look; something may have been counted before this table was there
                before = Era(0, _counted_id(connection, topic) or log.topic_id, 0, log.epoch)
                _put(connection, topic, partition, before, settled_epoch=before.epoch)
            # While the epoch is the same, more may have come, and been read, since Kafka was asked. No commit
            # is made of records of another epoch before this one is booked.
            same = (before.topic_id, before.epoch) == (log.topic_id, log.epoch)
            reached = _reached(connection, topic, partition, before)
            cut = log.cut if before.topic_id == log.topic_id else 0
            after = replace(before, topic_id=log.topic_id, epoch=log.epoch)
            if before.shared is not None:  # nobody has read of it, so it can still begin earlier
                after = replace(after, begins=min(before.begins, cut))
            elif (log.known.reached if same else reached) > cut:
                after = Era(before.era + 1, log.topic_id, cut, log.epoch, reached)
            if after != before:
                _put(connection, topic, partition, after)
    return stale


def volume_changed(engine: sa.Engine, shared: Mapping[str, int]) -> int:
    """Begin an era wherever records of another volume of Kafka's may have been read; returns how many.

    Kafka must not run. shared: by TOPIC-PARTITION, the newest epoch that the volume has in common with the
    one that ran before; what is missing has nothing in common with it. The era begins where the one before
    was read to; whoever looks first lets it begin where the volume's own records do, if that is earlier. To
    do so twice is to do so once.
    """
    number = 0
    with engine.begin() as connection:
        if not sa.inspect(connection).has_table(schema.log_eras.name):
            return 0  # a database that was made just now
        for topic in sorted(connection.scalars(sa.select(_C.topic).distinct())):
            _lock(connection, topic)
            for partition, log in _read(connection, topic).items():
                newest, common = log.newest, shared.get(f"{topic}-{partition}", NO_EPOCH)
                if newest.known > common:
                    at = _reached(connection, topic, partition, newest)
                    after = Era(newest.era + 1, newest.topic_id, at, before_a_look(common), at)
                    _put(connection, topic, partition, after)
                    number += 1
    return number


def add(engine: sa.Engine, topic: str, found: Iterable[tuple[int, Era]]) -> None:
    """Book these eras of partitions, as open."""
    with engine.begin() as connection:
        for partition, era in found:
            _put(connection, topic, partition, era)


def hold(connection: sa.Connection, topic: str, read_at: Mapping[int, tuple[int, int]]) -> None:
    """Keep these partitions' logs as they are until the transaction ends.

    read_at: the era and epoch at which each was read. Raises LogMoved if one is another now.
    """
    own = _locked(topic).where(_C.partition.in_(list(read_at)))
    connection.execute(own.with_for_update(read=True)).all()
    now = {number: (log.newest.era, log.newest.epoch) for number, log in _read(connection, topic).items()}
    if moved := [number for number, at in read_at.items() if now.get(number) != at]:
        raise LogMoved(topic, moved)


def _lock(connection: sa.Connection, topic: str) -> None:
    """Let nobody else decide or commit until the transaction ends."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext(f"log {topic}"))))
    connection.execute(_locked(topic).with_for_update()).all()


def _locked(topic: str) -> sa.Select[tuple[int]]:
    """The topic's rows, in the order in which everybody locks them."""
    return sa.select(_C.partition).where(_C.topic == topic).order_by(_C.partition, _C.era)


def _read(connection: sa.Connection, topic: str) -> dict[int, PartitionLog]:
    found: dict[int, list[Era]] = {}
    rows = sa.select(schema.log_eras).where(_C.topic == topic).order_by(_C.partition, _C.era)
    for row in connection.execute(rows):
        one = Era(row.era, row.topic_id, row.begins, row.epoch, row.reached)
        found.setdefault(row.partition, []).append(one)
    return {number: PartitionLog(tuple(own)) for number, own in found.items()}


def _put(
    connection: sa.Connection, topic: str, partition: int, era: Era, settled_epoch: int | None = None
) -> None:
    values = {**asdict(era), "settled_epoch": settled_epoch}
    statement = insert(schema.log_eras).values(topic=topic, partition=partition, **values)
    connection.execute(
        statement.on_conflict_do_update(
            index_elements=["topic", "partition", "era"],
            set_={name: values[name] for name in ("topic_id", "epoch", "begins")},
        )
    )


def _counted_id(connection: sa.Connection, topic: str) -> str | None:
    """The id of the topic of the newest commit; None before the first."""
    c = schema.commits.c
    newest = sa.select(c.topic_id).where(c.topic == topic).order_by(c.seq.desc()).limit(1)
    return connection.scalar(newest) or None


def _reached(connection: sa.Connection, topic: str, partition: int, era: Era) -> int:
    """The offset up to which one of the layers has read this era."""
    commits, files = schema.commits.c, schema.archive_files.c
    newest = sa.select(commits.end).where(commits.topic == topic).order_by(commits.seq.desc()).limit(1)
    end: Mapping[str, int] = connection.scalar(newest) or {}
    archived = (
        sa.select(files.next)
        .where(files.topic == topic, files.topic_id == era.topic_id, files.partition == partition)
        .order_by(files.first.desc())
        .limit(1)
    )
    positions = [int(end.get(str(partition), 0)), int(connection.scalar(archived) or 0)]
    return max((offset_of(each) for each in positions if era_of(each) == era.era), default=era.begins)
