"""Where the consumers are, by partition, of a topic's present incarnation: for the watch and `sluice lag`.

Kafka is a double; the books are tables in memory.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from kafka.errors import KafkaConnectionError

from sluice.archive import index, scaling
from sluice.monitoring import watch_progress as watch
from sluice.monitoring.lag import measurement
from sluice.runtime.positions import position_at
from sluice.runtime.settings import Settings
from sluice.stack.progress import WatchProgress
from sluice.storage.tables import eras, schema
from sluice.storage.tables.eras import LookedAt
from sluice.transmission.topics import KafkaTopic, Span, TopicMissing
from tests.tasks.database import sqlite

HOUR = 3600.0


class Kafka:
    """A double of a broker with one record a second and partition, the last of which came just now.

    ends: by topic and partition. What is in `unread` cannot be read.
    """

    def __init__(self) -> None:
        self.now = time.time()
        self.ends: dict[str, dict[int, int]] = {}
        self.unread: set[str | tuple[str, int]] = set()
        self.problem: Exception | None = None
        self.asked = 0

    def spans(self, name: str, since: int) -> dict[int, Span]:
        if name not in self.ends:
            raise TopicMissing(f"no topic {name!r}")
        return {at: Span(0, max(0, end - 60), end) for at, end in self.ends[name].items()}

    def describe(self, name: str) -> KafkaTopic:
        return KafkaTopic(name, "new", tuple(self.ends[name]))

    def owners(self, group: str) -> dict[int, str]:
        return {}

    def since(
        self, settings: Settings, positions: Mapping[tuple[str, int], int]
    ) -> dict[tuple[str, int], int]:
        self.asked += 1
        if self.problem is not None:
            raise self.problem
        return {
            (name, at): round((self.now - (self.ends[name][at] - 1 - position)) * 1000)
            for (name, at), position in positions.items()
            if name not in self.unread and (name, at) not in self.unread
        }


@pytest.fixture
def database() -> sa.Engine:
    return sqlite()


@pytest.fixture
def kafka(database: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> Kafka:
    double = Kafka()

    @contextmanager
    def topics(settings: Settings) -> Any:
        yield double

    monkeypatch.setattr(measurement, "Topics", topics)
    monkeypatch.setattr(measurement, "waiting_since", double.since)
    for module in (measurement, index):
        monkeypatch.setattr(module, "engine", lambda settings: database)
    return double


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(instance="test", home=tmp_path)


def archived(database: sa.Engine, partition: int, after: int, topic_id: str = "new") -> None:
    """The partition's only file ends before that offset."""
    row = {"topic": "logs", "topic_id": topic_id, "partition": partition, "first": 0, "next": after}
    row |= {"records": after, "lines": after, "bytes": 1, "arrival_min": 1, "arrival_max": 1, "days": {}}
    row |= {"unparsed": 0, "generation": 1, "path": "p"}
    with database.begin() as connection:
        connection.execute(sa.insert(schema.archive_files).values(**row))


def committed(database: sa.Engine, seq: int, end: Mapping[str, int], topic_id: str = "new") -> None:
    row = {"topic": "logs", "seq": seq, "token": "t", "topic_id": topic_id, "start": {}, "end": dict(end)}
    with database.begin() as connection:
        connection.execute(sa.insert(schema.commits).values(**row, tasks=[], counts={}))


def read(database: sa.Engine, topic: str) -> None:
    """A task reads the topic."""
    with database.begin() as connection:
        row = {"topic": topic, "version": 1, "name": topic, "enabled": True}
        connection.execute(sa.insert(schema.tasks).values(**row))


def about(seconds: float) -> Any:
    """The double's clock stands still, and the look's does not."""
    return pytest.approx(seconds, abs=120)


def lag(settings: Settings) -> dict[str, dict[str, tuple[int, float | None, int]]]:
    """By topic and hop: records, seconds, unread partitions."""
    return {
        topic: {hop: (each.records, each.seconds, each.unread) for hop, each in hops.items()}
        for topic, hops in watch.lag(settings).items()
    }


def test_the_archive_is_behind_by_its_partition_that_is_furthest_behind(
    settings: Settings, kafka: Kafka, database: sa.Engine
) -> None:
    kafka.ends["logs"] = {0: 9000, 1: 9000, 2: 9000}
    for partition, after in ((0, 9000), (1, 9000 - 3600), (2, 8995)):
        archived(database, partition, after)
    found = lag(settings)["logs"]["archive"]
    assert found == (3605, about(HOUR), 0)
    watch.write(settings, WatchProgress(updated_at=datetime.now(UTC), lag=watch.lag(settings)))
    assert scaling.behind(settings) == about(HOUR)


def test_what_an_earlier_topic_of_that_name_reached_does_not_count(
    settings: Settings, kafka: Kafka, database: sa.Engine
) -> None:
    kafka.ends["logs"] = {0: 4000}
    archived(database, 0, 100_000, "old")
    committed(database, 1, {"0": 100_000}, "old")
    for topic_id, end in (("old", 100_000), ("new", 4000)):
        known = eras.known(database, "logs", "id", [0])[0]
        eras.looked_at(database, "logs", {0: LookedAt(topic_id, 0, end, known)})
    behind = (4000, about(4000), 0)
    assert lag(settings)["logs"] == {"speed": behind, "archive": behind}
    archived(database, 0, position_at(1, 3000))
    committed(database, 2, {"0": position_at(1, 4000)})
    assert lag(settings)["logs"] == {"speed": (0, 0.0, 0), "archive": (1000, about(1000), 0)}


def test_a_topic_of_which_nothing_was_archived_is_behind_by_its_oldest_record(
    settings: Settings, kafka: Kafka, database: sa.Engine
) -> None:
    kafka.ends |= {"logs": {0: 10}, "shop": {0: 4000}}
    read(database, "shop")
    archived(database, 0, 10)
    found = {topic: hops["archive"] for topic, hops in lag(settings).items()}
    assert found["logs"] == (0, 0.0, 0)
    assert found["shop"] == (4000, about(4000), 0)
    assert kafka.asked == 2, "each consumer reads all of its topics at once"
    kafka.unread.add("shop")
    assert lag(settings)["shop"]["archive"] == (4000, None, 1)


def test_a_partition_that_cannot_be_read_is_not_taken_for_one_that_keeps_up(
    settings: Settings, kafka: Kafka, database: sa.Engine
) -> None:
    kafka.ends["logs"] = {0: 9000, 1: 9000}
    archived(database, 0, 9000 - 3600)
    archived(database, 1, 8998)
    kafka.unread.add(("logs", 0))
    assert lag(settings)["logs"]["archive"] == (3602, about(2), 1)
    watch.write(settings, WatchProgress(updated_at=datetime.now(UTC), lag=watch.lag(settings)))
    assert scaling.behind(settings, far=600.0) is None


def test_a_topic_that_kafka_does_not_have_is_left_out(settings: Settings, kafka: Kafka) -> None:
    assert watch.lag(settings) == {}


def test_if_kafka_does_not_say_since_when_records_wait_people_see_the_rest(
    settings: Settings, kafka: Kafka
) -> None:
    kafka.ends["logs"] = {0: 40}
    kafka.problem = KafkaConnectionError("gone")
    report = measurement.lag_report(settings)
    assert {(each.behind.records, each.behind.seconds) for each in report.partitions} == {(40, None)}
    assert "gone" in report.problems["logs"]
    with pytest.raises(KafkaConnectionError):
        watch.lag(settings)
