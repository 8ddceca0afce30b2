"""After a kill -9 of everything at once, the next bring-up finds what was acknowledged."""

from __future__ import annotations

import json
import os
import signal
from contextlib import closing
from itertools import islice
from urllib.request import ProxyHandler, Request, build_opener

import psycopg2
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from sluice.cli import instance
from sluice.runtime.settings import Settings
from sluice.stack import entry, initialise, process_groups, supervisord
from sluice.stack.catalogue import DAEMONS
from sluice.storage.hbase import HBase

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

TOPIC = TABLE = "survival"
ROWS = 1000


@pytest.fixture
def acknowledged(stack: Settings) -> None:
    """Write something into each store; the store has acknowledged it."""
    initialise.topic(stack, TOPIC)
    with closing(KafkaProducer(bootstrap_servers=stack.kafka.bootstrap, acks="all")) as producer:
        for number in range(ROWS):
            producer.send(TOPIC, str(number).encode(), partition=0)
        producer.flush()
    with HBase.of(stack) as hbase:
        hbase.create_table(TABLE, {"f": {}})
        hbase.put(TABLE, [(b"%04d" % number, {b"f:n": b"x"}) for number in range(ROWS)])
    webhdfs(stack, "CREATE", data=b"x" * ROWS)
    url = stack.postgres.url(driver="postgresql")
    with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {TABLE} AS SELECT generate_series(1, %s) AS n", (ROWS,))


def webhdfs(stack: Settings, operation: str, data: bytes | None = None) -> bytes:
    opener = build_opener(ProxyHandler({}))
    url = (
        f"{stack.hdfs.webhdfs}/webhdfs/v1/{TABLE}?op={operation}&user.name={stack.hdfs.user}&noredirect=true"
    )
    method = {"CREATE": "PUT", "DELETE": "DELETE"}.get(operation, "GET")
    with opener.open(Request(url, method=method), timeout=60) as answer:  # noqa: S310
        body = answer.read()
    if operation not in ("CREATE", "OPEN"):
        return bytes(body)
    with opener.open(Request(json.loads(body)["Location"], data=data, method=method), timeout=60) as answer:  # noqa: S310
        return bytes(answer.read())


@pytest.mark.usefixtures("acknowledged")
def test_everything_survives_kill_9_of_everything(stack: Settings) -> None:
    os.kill(int((stack.home / "run" / "supervisord.pid").read_text()), signal.SIGKILL)
    process_groups.kill(process_groups.of_daemon(stack))
    assert not supervisord.running(stack)

    instance.up(stack, print)

    assert {name: entry.check(stack, name) for name in DAEMONS} == dict.fromkeys(DAEMONS)
    consumer = KafkaConsumer(
        bootstrap_servers=stack.kafka.bootstrap, group_id=None, consumer_timeout_ms=120_000
    )
    with closing(consumer):
        consumer.assign([at := TopicPartition(TOPIC, 0)])
        consumer.seek_to_beginning(at)
        records = islice(consumer, consumer.end_offsets([at])[at])
        assert sorted(int(record.value) for record in records) == list(range(ROWS))
    with HBase.of(stack) as hbase:
        assert len(list(hbase.scan(TABLE))) == ROWS
        hbase.drop_table(TABLE)
    assert webhdfs(stack, "OPEN") == b"x" * ROWS
    webhdfs(stack, "DELETE")
    url = stack.postgres.url(driver="postgresql")
    with closing(psycopg2.connect(url)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {TABLE}")
        assert cursor.fetchone() == (ROWS,)
        cursor.execute(f"DROP TABLE {TABLE}")


def test_no_process_of_a_killed_supervisor_is_left_beside_the_new_ones(stack: Settings) -> None:
    programs = {program.pid for program in supervisord.programs(stack).values()}
    strays = [
        (process.pid, process.name())
        for process in process_groups.of_daemon(stack)
        if not programs & {process.pid, *(parent.pid for parent in process.parents())}
    ]
    assert strays == []
