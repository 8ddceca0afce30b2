"""A topic that was made by mistake is deleted; one that is or was used stays, and says by what."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise

import pytest
import sqlalchemy as sa
from kafka import KafkaAdminClient, KafkaProducer

from sluice.archive import topic_deletion
from sluice.archive.topic_deletion import TopicKept
from sluice.runtime.settings import ROOT, Settings
from sluice.storage.postgres import engine
from sluice.storage.tables import schema
from sluice.tasks import TaskSpec, TopicSpec
from sluice.tasks.store import TaskStore
from sluice.tasks.topics import TopicStore, UnknownTopic
from sluice.transmission.topics import TopicMissing, Topics
from tests.collection.conftest import inventory_text, settings
from tests.tasks.database import sqlite

__all__ = ["inventory_text", "settings"]


@pytest.fixture
def database(inventory_text: str) -> sa.Engine:
    return sqlite()


def kept(settings: Settings, database: sa.Engine, name: str) -> str:
    """Why it is not deleted; nobody is asked before."""
    with pytest.raises(TopicKept) as told:
        topic_deletion.delete(settings, database, name, "ann")
    with pytest.raises(TopicKept):
        topic_deletion.look(settings, database, name)
    return str(told.value)


@pytest.mark.parametrize("name", ["logs", "__consumer_offsets", "__cluster_metadata"])
def test_the_platforms_own_topics_stay(settings: Settings, database: sa.Engine, name: str) -> None:
    assert kept(settings, database, name) == f"topic {name!r} stays: the platform itself uses it"


def test_a_topic_that_tasks_read_stays_and_they_are_named(settings: Settings, database: sa.Engine) -> None:
    specs = [{"name": each, "topic": "shop", "period": "1m", "metrics": ["count"]} for each in ("two", "one")]
    TaskStore(database).apply([TaskSpec.model_validate(each) for each in specs], "me")
    assert "tasks read it (one, two): delete them first" in kept(settings, database, "shop")


@pytest.mark.parametrize(
    ("table", "said"), [("pruned", "has counted it"), ("archive_losses", "the archive has lines of it")]
)
def test_a_topic_that_was_used_stays(settings: Settings, database: sa.Engine, table: str, said: str) -> None:
    chosen = schema.metadata.tables[table]
    plain = {sa.Integer: 1, sa.BigInteger: 1, sa.Text: "x", sa.DateTime: datetime.now(UTC), sa.JSON: {}}
    row = {
        column.name: next((v for kind, v in plain.items() if isinstance(column.type, kind)), {})
        for column in chosen.columns
        if not column.nullable
    }
    with database.begin() as connection:
        connection.execute(sa.insert(chosen).values(row | {"topic": "shop"}))
    assert said in kept(settings, database, "shop")


def committed(database: sa.Engine, ends: list[dict[str, int]], at: datetime) -> None:
    rows = [
        {"topic": "shop", "seq": n, "token": str(n), "topic_id": "x", "committed_at": at, "start": start}
        | {"end": end, "tasks": [], "counts": {}}
        for n, (start, end) in enumerate(pairwise(ends))
    ]
    with database.begin() as connection:
        connection.execute(sa.insert(schema.commits), rows)


LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("ends", [[{}, {"0": 1}], [{"0": 5}, {"0": 5}, {"0": 6}], [{}, {"0": 0, "1": 2}]])
def test_a_topic_of_which_a_record_was_counted_stays(
    settings: Settings, database: sa.Engine, ends: list[dict[str, int]]
) -> None:
    committed(database, ends, LONG_AGO)
    assert "the speed layer has counted it" in kept(settings, database, "shop")


def test_a_topic_that_a_driver_has_only_just_left_stays(settings: Settings, database: sa.Engine) -> None:
    committed(database, [{}, {"0": 0}], datetime.now(UTC))
    assert "try again in a minute" in kept(settings, database, "shop")


@pytest.fixture
def name(stack: Settings) -> Iterator[str]:
    name = f"h4_{secrets.token_hex(5)}"
    yield name
    admin = KafkaAdminClient(bootstrap_servers=stack.kafka.bootstrap)
    if name in admin.list_topics():
        admin.delete_topics([name])
    admin.close()


def sluice(stack: Settings, *arguments: str, fault: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sluice.cli.main", "--instance", stack.instance, "topics", *arguments]
    environment = {**os.environ, "SLUICE_FAULT": fault}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)


@pytest.mark.stack
def test_a_topic_made_by_mistake_is_gone_also_after_a_kill_and_its_name_is_free(
    stack: Settings, name: str
) -> None:
    store = TopicStore(engine(stack))
    json = {"name": name, "format": "json", "time": {"extract": {"field": "at"}, "format": "iso8601"}}
    store.apply(TopicSpec.model_validate(json), "me")
    with Topics(stack) as topics:
        before = topics.create(name, partitions=2)
        producer = KafkaProducer(bootstrap_servers=stack.kafka.bootstrap)
        for _ in range(3):
            producer.send(name, b"{}").get(30)
        producer.close()
        refused = sluice(stack, "delete", name)  # there is nobody to say yes
        assert refused.returncode == 1
        assert "Kafka's topic with 3 records and its description" in refused.stdout
        assert topics.describe(name) == before
        killed = sluice(stack, "delete", name, "--yes", fault="topic_deleted")
        assert killed.returncode == -signal.SIGKILL
        # A task was there, and its driver committed its begin and its end, without a line.
        commit = {"seq": 1, "token": "t", "topic_id": before.id, "committed_at": LONG_AGO}
        commit |= {"start": {"0": 3}, "end": {"0": 3, "1": 0}, "tasks": [], "counts": {}}
        with engine(stack).begin() as connection:
            connection.execute(sa.insert(schema.commits).values(topic=name, **commit))
        again = sluice(stack, "delete", name, "--yes")
        assert (again.returncode, again.stdout) == (0, f"{name}: deleted (its description)\n")
        with pytest.raises(TopicMissing):
            topics.describe(name)
        gone = sluice(stack, "delete", name, "--yes")
        assert (gone.returncode, "there is no topic" in gone.stderr) == (2, True)
        with pytest.raises(UnknownTopic):
            topic_deletion.look(stack, engine(stack), name)
        assert store.apply(TopicSpec(name=name), "me") == "created"  # in another format
        assert topics.create(name, partitions=1).id != before.id
        topic_deletion.delete(stack, engine(stack), name, "ann")
        with engine(stack).connect() as connection:
            assert not connection.scalar(
                sa.select(schema.commits.c.seq).where(schema.commits.c.topic == name)
            )
