"""A replay goes only where its lines are counted, and takes those that a ledger knows for long enough."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sluice.archive import index
from sluice.archive.file import ArchivedPartition, of_records
from sluice.letters import archived_lines
from sluice.letters import replay as module
from sluice.letters.replay import (
    ReplayRefused,
    ReplayRequest,
    check,
    replay_letters,
    replay_topic,
    replayable,
)
from sluice.runtime import holds
from sluice.runtime.holds import Hold
from sluice.runtime.settings import Settings
from sluice.storage.tables import history, schema
from sluice.storage.tables.dead_letters import LetterFilter
from sluice.tasks import TaskSpec
from sluice.tasks.store import TaskStore
from sluice.tasks.topics import TopicStore, UnknownTopic
from tests.archive.local_archive import LocalArchive
from tests.letters.made import AT, book, letter
from tests.letters.speed_layer import SHOP, SpeedLayer
from tests.letters.test_archived_lines import Hdfs
from tests.letters.test_line_replay import COUNTED, LETTERS, archived, good
from tests.tasks.database import sqlite

HITS = TaskSpec.model_validate({"name": "hits", "topic": "shop", "period": "1d", "metrics": ["count"]})


def test_letters_are_replayed_for_as_long_as_a_ledger_knows_them() -> None:
    """Retention forgets a file of the ledger `retention.days` after the commit that counted its last line."""
    now = datetime(2026, 3, 1, tzinfo=UTC)
    settings = Settings.model_validate({"retention": {"days": 10}})
    later = now + timedelta(days=100)
    assert replayable(settings, None, later, now)[1] == now  # so that it was counted after it arrived
    forgotten = now + timedelta(days=10)  # at the earliest, what is counted now
    assert replayable(settings, now - timedelta(days=99), None, forgotten)[0] > now
    narrow = now - timedelta(days=2), now - timedelta(days=1)
    assert replayable(settings, *narrow, now) == narrow


@pytest.fixture
def database() -> sa.Engine:
    made = sqlite()
    TopicStore(made).apply(SHOP, "ann")
    book(made, *LETTERS, letter(12, good(12), arrived_at=datetime(2015, 5, 17, tzinfo=UTC)))
    return made


def begin(database: sa.Engine) -> None:
    """The task is there, and the speed layer counts it."""
    (change,) = TaskStore(database).apply([HITS], "ann")
    row = {"task_id": change.task_id, "version": change.version, "first_seq": 1, "topic": "shop"}
    with database.begin() as connection:
        connection.execute(sa.insert(schema.task_ranges).values(**row, start={}, end=sa.null()))


def test_lines_go_only_where_they_are_counted(database: sa.Engine) -> None:
    with pytest.raises(ReplayRefused, match="its format never changes"):
        check(database, "logs", "logs")
    with pytest.raises(UnknownTopic):
        check(database, "logs", "shpo")
    with pytest.raises(ReplayRefused, match="no active task reads topic 'shop'"):
        check(database, "logs", "shop")
    TaskStore(database).apply([HITS], "ann")
    with pytest.raises(ReplayRefused, match="has not begun to count hits"):
        check(database, "logs", "shop")
    TaskStore(database).delete("hits", "ann")
    begin(database)
    check(database, "logs", "shop")


@pytest.fixture
def layer(database: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> SpeedLayer:
    """What comes to the topic `shop`, whose task is counted, in place of Kafka."""
    begin(database)
    made = SpeedLayer()

    class Writer:
        def __init__(self, settings: Settings, topic: str, partitions: int) -> None:
            assert (topic, partitions) == ("shop", 4)

        def __enter__(self) -> SpeedLayer:
            return made

        def __exit__(self, *_: object) -> None: ...

    class Described:
        def __init__(self, settings: Settings) -> None: ...

        def __enter__(self) -> Any:
            return self

        def __exit__(self, *_: object) -> None: ...

        def describe(self, name: str) -> Any:
            return type("Topic", (), {"partitions": range(4)})

    for each in (module, index, archived_lines):
        monkeypatch.setattr(each, "engine", lambda _: database)
    monkeypatch.setattr(module, "RecordWriter", Writer)
    monkeypatch.setattr(module, "Topics", Described)
    return made


def asked(**changed: Any) -> ReplayRequest:
    return ReplayRequest(**{"topic": "logs", "into": "shop", "who": "host:ann", **changed})


def frozen(database: sa.Engine) -> list[str]:
    with database.connect() as connection:
        return list(connection.scalars(sa.select(schema.frozen_topics.c.topic)))


def test_letters_the_whole_way_but_kafka(database: sa.Engine, layer: SpeedLayer) -> None:
    some = LetterFilter("logs", "no event time", None, AT + timedelta(seconds=6))
    assert replay_letters(Settings(), some, asked(dry_run=True)).sent == 6
    assert layer.records == []
    assert history.entries(database, what="topic", limit=1)[0].action != "replayed"
    told: list[int] = []
    report = replay_letters(Settings(), some, asked(told=lambda so_far: told.append(so_far.sent)))
    assert (report.sent, told) == (6, [6])
    entry = history.entries(database, what="topic", limit=1)[0]
    assert (entry.who, entry.name, entry.action) == ("host:ann", "logs", "replayed")
    assert "shop" in frozen(database)
    whole = replay_letters(Settings(), LetterFilter("logs"), asked())
    assert whole.looked_at == len(LETTERS)  # one is beyond retention
    assert layer.counted()[0] == COUNTED


def test_all_lines_the_whole_way_but_kafka(
    database: sa.Engine, layer: SpeedLayer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines that a ledger may have forgotten stay where they are."""
    archive = LocalArchive(tmp_path, database)
    monkeypatch.setattr(archived_lines, "Stores", Hdfs(Settings()))
    now = int(datetime.now(UTC).timestamp() * 1_000)
    for arrival, numbers in ((now - 500 * 86_400_000, range(3)), (now - 1_000, range(3, 9))):
        rows = archived(numbers).to_pylist()
        for n, row in enumerate(rows):
            row |= {"partition": 3, "offset": archive.position + n, "arrival": arrival}
        batch = archived([]).from_pylist(rows, archived([]).schema)
        archive.publish(of_records(ArchivedPartition("logs", "id", 3), archive.position, [batch], 1))
    settings = Settings(home=tmp_path)
    looked = replay_topic(settings, asked(dry_run=True))
    assert (looked.looked_at, looked.sent, layer.records) == (6, 6, [])
    assert [(why.split()[0], number) for why, number in looked.refused.items()] == [("arrived", 3)]
    holds.hold(tmp_path, Hold.INTAKE, "a disk is nearly full")
    monkeypatch.setattr(holds.time, "sleep", lambda _: holds.release(tmp_path, Hold.INTAKE))
    assert replay_topic(settings, asked()).sent == 6
    assert not holds.reason(tmp_path, Hold.INTAKE)
    assert set(layer.read()[0]) == {good(10 + n) for n in range(3, 9)}
    entry = history.entries(database, what="topic", limit=1)[0]
    assert (entry.name, entry.action, entry.after) == ("logs", "replayed", '{"into": "shop", "lines": "all"}')
    assert replay_topic(settings, asked(), since=datetime.now(UTC) + timedelta(hours=1)).looked_at == 0


def test_a_topic_that_nobody_knows_has_no_lines(layer: SpeedLayer) -> None:
    with pytest.raises(UnknownTopic, match="lgos"):
        replay_topic(Settings(), asked(topic="lgos"))
