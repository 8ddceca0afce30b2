"""Each piece that a store set aside has an alert until somebody, or retention, deletes it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sluice.monitoring.aside_pieces import SOURCE, delete_old, pieces, tell
from sluice.runtime.settings import Settings
from sluice.stack.daemons import kafka_checkpoints
from sluice.stack.daemons.lost_journal import set_aside_empty_journal
from sluice.stack.daemons.zookeeper_files import set_aside_headless
from sluice.storage.tables.alerts import open_alerts
from tests.tasks.database import sqlite


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """The namenode and ZooKeeper set something aside; a channel was torn, and a block."""
    made = Settings(instance="test", home=tmp_path)
    current = tmp_path / "data" / "namenode" / "current"
    current.mkdir(parents=True)
    (current / "seen_txid").write_text("7\n")
    (current / "edits_inprogress_0000000000000000007").write_bytes(bytes(30))
    set_aside_empty_journal(made)
    journals = tmp_path / "data" / "zookeeper" / "zookeeper_0" / "version-2"
    journals.mkdir(parents=True)
    (journals / "log.1f").write_bytes(bytes(5))
    set_aside_headless(made)
    for name, size in (("flume/edge-web1/torn/log-4.1234", 1_200), ("data/datanode/lost/blk_7.512", 9)):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_bytes(bytes(size))
    checkpoint = tmp_path / "data" / "kafka" / "cleaner-offset-checkpoint"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.write_bytes(bytes(7))
    kafka_checkpoints.mend(made)
    return made


def test_each_piece_is_named_with_its_store_and_bytes(settings: Settings) -> None:
    assert [(each.name, each.size) for each in pieces(settings)] == [
        ("flume/edge-web1/torn/log-4.1234", 1_200),
        ("data/namenode/lost/edits_inprogress_0000000000000000007", 30),
        ("data/datanode/lost/blk_7.512", 9),
        ("data/zookeeper/zookeeper_0/version-2/lost/log.1f", 5),
        ("data/kafka/lost-cleaner-offset-checkpoint", 7),
    ]
    database = sqlite()
    tell(settings, database)
    found = {each.name: each.message for each in open_alerts(database, SOURCE)}
    said = found["flume/edge-web1/torn/log-4.1234"]
    assert said.startswith("the Flume agent edge-web1 was stopped while it wrote")
    assert "1,200 bytes were not whole" in said
    assert f"{settings.home}/flume/edge-web1/torn/log-4.1234 since 2" in said
    assert "After 400 days" in said
    assert "`sluice archive repair`" in found["data/namenode/lost/edits_inprogress_0000000000000000007"]


def test_an_alert_ends_when_its_piece_is_deleted(settings: Settings) -> None:
    database = sqlite()
    tell(settings, database)
    next(pieces(settings)).path.unlink()
    tell(settings, database)
    assert len(open_alerts(database, SOURCE)) == 4


def test_a_new_instance_has_none(tmp_path: Path) -> None:
    database = sqlite()
    tell(Settings(instance="test", home=tmp_path), database)
    assert open_alerts(database, SOURCE) == []


def test_old_pieces_are_deleted_and_others_stay(settings: Settings) -> None:
    now = datetime.now(UTC)
    assert delete_old(pieces(settings), now - timedelta(days=1)) == 0
    assert delete_old(pieces(settings), now + timedelta(minutes=1)) == 5
    assert list(pieces(settings)) == []
