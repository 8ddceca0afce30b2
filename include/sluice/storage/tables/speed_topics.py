"""Which driver of the speed layer counts which topic, where there is more than one.

A row says which driver should count a topic, and which one does. To move a topic is to write the other driver
into its row. The old driver sees that, stops the topic after a commit and releases it. The new one waits for
the topic's lock (`commits.TopicClaim`), so it begins where the old one ended. PostgreSQL frees the lock of a
driver that died: its topics can be taken at once. Were the lock ever lost while its driver lives, the primary
key of the commits still lets only one of the two count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from sluice.storage.tables import history, locks
from sluice.storage.tables.schema import commits, speed_topics

#: A topic's load is the mean over LOAD_TIME, from its newest MOST commits: more than it has in that time.
LOAD_TIME = timedelta(minutes=5)
MOST = 1_000


@dataclass(frozen=True)
class TopicOwner:
    """Which driver should count a topic, and which has it now; None if none has."""

    driver: str
    owner: str | None = None


Places = Mapping[str, TopicOwner]


class SpeedTopics:
    """Reads and writes the places of topics; every method is one transaction."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def places(self) -> Places:
        """The topics that have a row."""
        with self._engine.connect() as connection:
            return _places(connection)

    def settle(
        self,
        topics: Collection[str],
        drivers: Sequence[str],
        counted: Mapping[str, str] = MappingProxyType({}),
    ) -> Places:
        """Give each of these topics one of these drivers, and forget all other topics.

        A topic that has such a driver keeps it. One that has none stays with the driver that counts it, by
        `counted`, or else gets the least loaded. With one driver only topics have rows that another driver
        still holds.
        """
        before = self.places()
        if len(drivers) == 1 and not before:
            return before
        wrong = before.keys() ^ set(topics) or any(each.driver not in drivers for each in before.values())
        if len(drivers) > 1 and not wrong:
            return before
        with self._writing() as connection:
            if len(drivers) == 1:
                _hand_all(connection, drivers[0])
            else:
                _place(connection, topics, drivers, counted)
            return _places(connection)

    def move(self, moves: Mapping[str, str], user: str) -> None:
        """Write which driver should count each of these topics, as the user wants."""
        with self._writing() as connection:
            before = _places(connection)
            _write(connection, moves, {})
            for topic, driver in moves.items():
                had = before[topic].driver if topic in before else ""
                history.record(
                    connection, who=user, what="topic", name=topic, action="moved", before=had, after=driver
                )

    def loads(self, topics: Collection[str]) -> dict[str, float]:
        """Bytes of lines a second that were counted of each topic in the last minutes."""
        with self._engine.connect() as connection:
            return _loads(connection, topics)

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        """A transaction; only one runs at a time: a topic is placed once, and no move is overwritten."""
        with self._engine.begin() as connection:
            locks.take(connection, locks.Lock.SPEED_TOPICS)
            yield connection


def _places(connection: sa.Connection) -> dict[str, TopicOwner]:
    rows = connection.execute(sa.select(speed_topics).order_by(speed_topics.c.topic))
    return {row.topic: TopicOwner(row.driver, row.owner) for row in rows}


def _write(connection: sa.Connection, drivers: Mapping[str, str], owners: Mapping[str, str]) -> None:
    """Write the driver of each topic. owners: of topics that have no row yet."""
    rows = [
        {"topic": topic, "driver": driver, "owner": owners.get(topic)}
        for topic, driver in sorted(drivers.items())
    ]
    if rows:
        statement = insert(speed_topics)
        same = {"driver": statement.excluded.driver}
        connection.execute(statement.on_conflict_do_update(index_elements=["topic"], set_=same), rows)


def _hand_all(connection: sa.Connection, driver: str) -> None:
    """Give the one driver all topics; a topic that no other driver holds needs no row."""
    t = speed_topics
    connection.execute(sa.update(t).values(driver=driver))
    connection.execute(sa.delete(t).where(sa.or_(t.c.owner.is_(None), t.c.owner == driver)))


def _place(
    connection: sa.Connection, topics: Collection[str], drivers: Sequence[str], counted: Mapping[str, str]
) -> None:
    t = speed_topics
    connection.execute(sa.delete(t).where(t.c.topic.not_in(sorted(topics))))
    placed = {topic: each.driver for topic, each in _places(connection).items() if each.driver in drivers}
    placed |= {topic: counted[topic] for topic in topics if topic not in placed and topic in counted}
    found = least_loaded(topics, drivers, placed, _loads(connection, topics))
    _write(connection, placed | found, counted)


def least_loaded(
    topics: Collection[str], drivers: Sequence[str], placed: Mapping[str, str], loads: Mapping[str, float]
) -> dict[str, str]:
    """The drivers of topics that are not placed.

    The heaviest topic comes first, and gets the driver with the least load, or of equal ones that with the
    fewest topics.
    """
    load = {driver: [0.0, 0] for driver in drivers}

    def give(topic: str, driver: str) -> None:
        load[driver][0] += loads.get(topic, 0.0)
        load[driver][1] += 1

    for topic, driver in placed.items():
        give(topic, driver)
    found: dict[str, str] = {}
    for topic in sorted(set(topics) - placed.keys(), key=lambda name: (-loads.get(name, 0.0), name)):
        found[topic] = min(drivers, key=lambda driver: load[driver])
        give(topic, found[topic])
    return found


def _loads(connection: sa.Connection, topics: Collection[str]) -> dict[str, float]:
    since = datetime.now(UTC) - LOAD_TIME
    c = commits.c
    found = {}
    for topic in topics:
        newest = sa.select(c.committed_at, c.counts).where(c.topic == topic).order_by(c.seq.desc())
        rows = connection.execute(newest.limit(MOST)).all()
        size = sum(row.counts.get("bytes", 0) for row in rows if row.committed_at >= since)
        found[topic] = size / LOAD_TIME.total_seconds()
    return found
