"""What several archivers, or drivers, say of themselves, read as one."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sluice.runtime import detached
from sluice.runtime.settings import Settings
from sluice.stack import jobs


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "run").mkdir()
    return Settings(instance="test", home=tmp_path)


def says(settings: Settings, member: str, age: float, state: str = "archiving", **partitions: int) -> None:
    """The member's partitions (p0, p1 ...) and their positions."""
    found: dict[str, Any] = {name[1:]: {"position": at} for name, at in partitions.items()}
    document = {"pid": 1, "updated_at": time.time() - age}
    document["topics"] = {"logs": {"state": state, "partitions": found}}
    (settings.home / "run" / f"{member}.progress.json").write_text(json.dumps(document))


def positions(settings: Settings) -> dict[int, int | None]:
    """Those of the topic's partitions, of all archivers."""
    return {at: each.position for at, each in jobs.archiver(settings).topics["logs"].partitions.items()}


def test_the_partitions_of_all_members_are_one_archiver_s(settings: Settings) -> None:
    says(settings, "archiver", 2, p0=5)
    assert positions(settings) == {0: 5}
    says(settings, "archiver-2", 1, "waiting for Kafka", p1=7)
    found = jobs.archiver(settings)
    assert positions(settings) == {0: 5, 1: 7}
    assert found.topics["logs"].state == "archiving"
    assert time.time() - jobs.written(found) > 1.5, "as old as the oldest"


def test_a_partition_that_moved_is_where_its_new_owner_says(settings: Settings) -> None:
    says(settings, "archiver", 0, p0=9)
    says(settings, "archiver-2", 5, p0=5, p1=1)
    assert positions(settings) == {0: 9, 1: 1}


def test_a_member_that_was_stopped_long_ago_says_nothing(settings: Settings) -> None:
    says(settings, "archiver", 1, p0=9)
    says(settings, "archiver-2", 300, p0=5, p1=1)
    assert positions(settings) == {0: 9}
    says(settings, "archiver", 400, p0=9)
    assert jobs.written(jobs.archiver(settings)) < time.time() - 300, "nobody lives"


def test_a_member_s_progress_is_that_of_its_own_partitions(settings: Settings) -> None:
    says(settings, "archiver", 1, p0=9)
    says(settings, "archiver-2", 1, p1=4)
    says(settings, "archiver-3", 1)
    assert jobs.position(settings, "archiver") == {"logs": {0: 9}}
    assert jobs.position(settings, "archiver-2") == {"logs": {1: 4}}
    assert jobs.position(settings, "archiver-3") is None, "without work it cannot be stuck"
    assert jobs.position(settings, "nothing") is None


def counts(settings: Settings, driver: str, age: float, *, whole: str = "running", **states: str) -> None:
    """What a driver says of topics."""
    at = (datetime.now(UTC) - timedelta(seconds=age)).isoformat(timespec="milliseconds")
    topics = {name: {"state": state, "token": driver, "end": {"0": 1}} for name, state in states.items()}
    document = {"state": whole, "pid": 1, "updated_at": at, "topics": topics}
    (settings.home / "run" / f"{driver}.progress.json").write_text(json.dumps(document))


def recorded(settings: Settings, name: str) -> None:
    """A record of a process that has died."""
    record = detached.ProcessRecord(name, 1, 0, "another boot", "token", [], datetime.now(UTC).isoformat())
    (settings.home / "run" / f"{name}.json").write_text(json.dumps(asdict(record)))


def test_one_driver_s_document_is_as_it_wrote_it(settings: Settings) -> None:
    counts(settings, "speed_layer", 1, logs="counting")
    found = jobs.speed_layer(settings)
    (topic,) = found.topics.values()
    assert (topic.state, topic.token, topic.end) == ("counting", "speed_layer", {"0": 1})
    assert (topic.driver, topic.updated_at) == ("speed_layer", found.updated_at)


def test_each_topic_is_as_the_driver_says_that_counts_it(settings: Settings) -> None:
    counts(settings, "speed_layer", 2, logs="counting", shop="starting")
    counts(settings, "speed_layer-2", 1, shop="counting", logs="starting")
    found = jobs.speed_layer(settings)
    whose = {"logs": "speed_layer", "shop": "speed_layer-2"}
    assert {name: topic.driver for name, topic in found.topics.items()} == whose
    assert {name: topic.token for name, topic in found.topics.items()} == whose
    assert found.updated_at == found.topics["logs"].updated_at, "as old as the oldest"


def test_a_topic_that_moved_is_as_its_new_driver_says(settings: Settings) -> None:
    counts(settings, "speed_layer", 20, logs="counting")  # it died before it could forget it
    counts(settings, "speed_layer-2", 1, logs="counting")
    assert jobs.speed_layer(settings).topics["logs"].driver == "speed_layer-2"


def test_a_driver_that_died_is_missed_and_one_that_was_stopped_is_not(settings: Settings) -> None:
    counts(settings, "speed_layer", 1, logs="counting")
    counts(settings, "speed_layer-2", 300, shop="counting")
    assert jobs.speed_layer(settings).topics.keys() == {"logs"}, "nobody started it"
    recorded(settings, "speed_layer-2")
    found = jobs.speed_layer(settings)
    assert found.topics.keys() == {"logs", "shop"}
    assert jobs.silent(found)
    assert jobs.running_drivers(two(settings)) == ["speed_layer"]
    counts(settings, "speed_layer-2", 1)
    assert jobs.running_drivers(two(settings)) == ["speed_layer", "speed_layer-2"]
    (settings.home / "run" / "speed_layer-2.json").unlink()
    counts(settings, "speed_layer-2", 1, whole="stopped", shop="stopped")
    assert jobs.speed_layer(settings).topics.keys() == {"logs"}


def test_a_driver_s_position_is_that_of_its_own_topics(settings: Settings) -> None:
    counts(settings, "speed_layer", 1, logs="counting")
    counts(settings, "speed_layer-2", 1)
    assert jobs.position(settings, "speed_layer") == {"logs": {"0": 1}}
    assert jobs.position(settings, "speed_layer-2") is None, "without topics it cannot be stuck"
    assert jobs.lag(settings, "speed_layer-2") == 0, "the lag of others is no reason to restart it"


def two(settings: Settings) -> Settings:
    return Settings(instance="test", home=settings.home, speed={"drivers": 2})
