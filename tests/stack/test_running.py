"""The running stack: healthy, on loopback, its secrets private, and back after kill -9."""

from __future__ import annotations

import signal
import stat
from contextlib import closing

import psutil
import psycopg2
import pytest

from sluice.runtime.settings import Settings
from sluice.stack import entry, status, supervisord
from sluice.stack.catalogue import DAEMONS
from sluice.stack.memory import ProcessFamily
from sluice_lab.waiting import until

pytestmark = pytest.mark.stack

BACK_SECONDS = 120.0


@pytest.mark.parametrize("name", DAEMONS)
def test_every_daemon_says_in_its_own_protocol_that_it_works(stack: Settings, name: str) -> None:
    assert entry.check(stack, name) is None


def test_status_knows_each_daemon(stack: Settings) -> None:
    lines = {line.name: line for line in status.daemons(stack)}
    assert set(lines) == set(DAEMONS)
    assert all(line.state == "running" and line.memory_bytes > 10 << 20 for line in lines.values())


def test_everything_listens_on_loopback_alone(stack: Settings) -> None:
    ours = ProcessFamily(stack).pids()
    exposed = [
        (connection.laddr.ip, connection.laddr.port, connection.pid)
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
        and connection.pid in ours
        and connection.laddr.ip not in ("127.0.0.1", "::1", "::ffff:127.0.0.1")
    ]
    assert exposed == []


def test_every_daemon_listens_on_the_ports_of_the_settings(stack: Settings) -> None:
    listening = {
        connection.laddr.port
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }
    wanted = {name: stack.port(name) for daemon in DAEMONS.values() for name in daemon.ports}
    assert {name for name, port in wanted.items() if port not in listening} == set()


def test_secrets_and_the_supervisor_s_socket_are_the_owner_s_alone(stack: Settings) -> None:
    files = [*(stack.home / "secrets").iterdir(), supervisord.socket_path(stack)]
    assert {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in files} == {
        path.name: oct(0o600) for path in files
    }


def test_postgresql_wants_the_password(stack: Settings) -> None:
    wrong = stack.postgres.model_copy(update={"password": "guessed"})
    with pytest.raises(psycopg2.OperationalError, match="password authentication failed"):
        psycopg2.connect(wrong.url("postgresql"))


def test_postgresql_does_not_run_as_root(stack: Settings) -> None:
    assert psutil.Process(supervisord.programs(stack)["postgres"].pid).uids().effective != 0


def test_the_topic_stamps_arrival_and_takes_long_lines(stack: Settings) -> None:
    from kafka import KafkaAdminClient
    from kafka.admin import ConfigResource, ConfigResourceType

    with closing(KafkaAdminClient(bootstrap_servers=stack.kafka.bootstrap)) as admin:
        (topic,) = admin.describe_topics(["logs"])
        found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "logs")])
    assert len(topic["partitions"]) == stack.kafka.partitions
    assert "LogAppendTime" in str(found)
    assert str(stack.kafka.max_message_bytes) in str(found)


@pytest.mark.e2e
def test_a_killed_daemon_comes_back(stack: Settings) -> None:
    name = "hbase-thrift"
    before = supervisord.programs(stack)[name].pid
    psutil.Process(before).send_signal(signal.SIGKILL)
    until(lambda: supervisord.programs(stack)[name].pid not in (0, before), what=f"{name} is restarted")
    until(lambda: entry.check(stack, name) is None, BACK_SECONDS, f"{name} is healthy")


def test_other_settings_need_the_instance_stopped(stack: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_KAFKA__BOOTSTRAP", "elsewhere:9092")
    with pytest.raises(supervisord.SettingsChanged, match=r"SLUICE_KAFKA__BOOTSTRAP: .*sluice down"):
        supervisord.start(stack, list(DAEMONS.values()))
