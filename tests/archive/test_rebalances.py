"""Rebalances are written by one clock, and a member that died is heard of by its last heartbeat."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sluice.archive import rebalances as module
from sluice.archive.heartbeat import Heartbeat
from sluice.archive.rebalances import DIED
from sluice.monitoring.lag.cost import costs
from sluice.runtime.settings import Settings
from sluice.stack.progress import ArchivedTopic, ArchiverProgress, ArchivingState, read
from sluice.storage import postgres
from sluice.storage.tables import rebalances
from sluice.storage.tables.rebalances import Rebalance
from sluice_lab.waiting import SECONDS
from tests.tasks.database import sqlite

AT = datetime(2026, 11, 23, 12, tzinfo=UTC)
PARTS = {"0": {"position": 9}, "2": {"position": 4}}


@pytest.fixture
def database() -> sa.Engine:
    return sqlite()


def written(database: sa.Engine, topic: str = "logs") -> list[Rebalance]:
    with database.connect() as connection:
        return rebalances.last(connection, topic, 99)


def test_what_members_on_hosts_with_other_clocks_write_is_one_history(
    database: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def host(ahead: float, *rows: Rebalance) -> None:
        """A host whose clock is ahead of the database's."""
        monkeypatch.setattr(rebalances, "ahead", lambda _: timedelta(seconds=-ahead))
        module._add(database, [*rows])

    said = Rebalance("logs", "m", 1, AT, "w", (), (1,), None)
    host(60, replace(said, at=AT + timedelta(seconds=60)))
    host(-60, replace(said, at=AT - timedelta(seconds=57), gained=(1,), lost=(), seconds=0.5))
    assert [each.at for each in written(database)] == [AT + timedelta(seconds=3), AT]
    assert costs(written(database), 1)[0].stood_still == 3.5


def test_rows_of_several_topics_are_written_at_once(
    database: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebalances, "ahead", lambda _: timedelta(0))
    rows = [Rebalance(topic, "m", 1, AT, "w", (), (0,), None) for topic in ("logs", "shop")]
    module._add(database, rows)
    assert [*written(database), *written(database, "shop")] == rows


def test_the_database_s_clock_is_compared_with_this_host_s(
    database: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Fast(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime.now(tz) + timedelta(hours=1)

    monkeypatch.setattr(rebalances, "datetime", Fast)
    assert abs(rebalances.ahead(database) + timedelta(hours=1)) < timedelta(minutes=1)


@pytest.mark.stack
def test_postgresql_s_clock_is_this_machine_s(stack: Settings) -> None:
    assert abs(rebalances.ahead(postgres.engine(stack))) < timedelta(seconds=10)


def beat(path: Path, state: str, partitions: dict[str, Any], topic: str = "logs") -> None:
    """A process beats, and ends."""
    Heartbeat(path).beat(
        topic, ArchivedTopic.model_validate({"state": state, "generation": 7, "partitions": partitions})
    )


def died(database: sa.Engine, path: Path) -> Sequence[Rebalance]:
    """What is written when the next process starts."""
    before = len(written(database))
    if (writing := module.died(database, path, "archiver-2")) is not None:
        writing.join(SECONDS)
    found = written(database)
    return found[: len(found) - before]


@pytest.mark.parametrize("written_as", [datetime.isoformat, datetime.timestamp])
def test_a_member_that_died_lost_its_partitions_at_its_last_heartbeat(
    database: sa.Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    written_as: Callable[..., Any],
) -> None:
    """Seconds since 1970 are what an archiver of an earlier release wrote."""
    monkeypatch.setattr(rebalances, "ahead", lambda _: timedelta(0))
    path = tmp_path / "progress.json"
    beat(path, "archiving", PARTS)
    document = json.loads(path.read_text())
    document["updated_at"] = written_as(AT)
    document["topics"]["logs"]["age"] = 3.0  # the thread of this topic hung before the process died
    path.write_text(json.dumps(document))
    (row,) = died(database, path)
    assert (row.member, row.generation, row.why) == ("archiver-2", 7, DIED)
    assert (row.gained, row.lost, row.seconds) == ((), (0, 2), None)
    assert row.at == AT - timedelta(seconds=3)
    assert not died(database, path), "a process that dies before its first heartbeat says no more"
    assert json.loads(path.read_text())["updated_at"] == AT.isoformat(timespec="milliseconds"), "as it was"


@pytest.mark.parametrize(
    ("state", "partitions"),
    [("stopped", {}), ("stopping", PARTS), ("waiting for Kafka", {}), ("archiving", {})],
)
def test_a_member_that_gave_up_all_in_order_did_not_lose_it_again(
    database: sa.Engine, tmp_path: Path, state: str, partitions: dict[str, Any]
) -> None:
    path = tmp_path / "progress.json"
    beat(path, state, partitions)
    assert not died(database, path)
    assert json.loads(path.read_text())["topics"]["logs"]["state"] == state


@pytest.mark.parametrize("content", [None, "", "[1]", '{"topics": {"logs": {"state": "archiving"}}}'])
def test_a_heartbeat_that_is_none_keeps_no_archiver_from_starting(
    database: sa.Engine, tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "progress.json"
    if content is not None:
        path.write_text(content)
    assert not died(database, path)


def test_a_heartbeat_says_how_long_each_topic_has_been_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    heartbeat = Heartbeat(tmp_path / "progress.json")
    heartbeat.beat("logs", ArchivedTopic(state=ArchivingState.ARCHIVING))
    clock[0] += 40.0
    heartbeat.beat("shop", ArchivedTopic(state=ArchivingState.ARCHIVING))
    topics = read(tmp_path / "progress.json", ArchiverProgress).topics
    assert {name: topic.age for name, topic in topics.items()} == {"logs": 40.0, "shop": 0.0}
