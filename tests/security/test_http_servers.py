"""The daemons' web servers and JVMs do nothing for strangers but show their state."""

from __future__ import annotations

import re
from contextlib import suppress
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

import psutil
import pytest

from sluice.runtime.settings import Settings
from sluice.stack.memory import ProcessFamily

pytestmark = pytest.mark.stack

SERVERS = ("namenode_http", "datanode_http", "hbase_master_http")
LOGGER = "org.apache.hadoop.security.Groups"
#: How a JVM lets others look into it or run code.
REMOTE = re.compile(r"jmxremote|jdwp|jolokia|flume\.monitoring\.type=http")


def get(settings: Settings, server: str, path: str) -> tuple[int, str]:
    try:
        with build_opener(ProxyHandler({})).open(
            f"http://127.0.0.1:{settings.port(server)}{path}", timeout=30
        ) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.parametrize("server", SERVERS)
def test_nobody_changes_the_level_of_a_log(stack: Settings, server: str) -> None:
    status, text = get(stack, server, f"/logLevel?log={LOGGER}&level=DEBUG")
    assert status == 403
    assert "Effective level" not in text


@pytest.mark.parametrize("server", SERVERS)
def test_nobody_starts_a_profiler(stack: Settings, server: str) -> None:
    status, text = get(stack, server, "/prof?duration=1")
    assert status == 500
    assert "disabled at startup" in text


@pytest.mark.parametrize("server", SERVERS)
def test_no_logs_are_served(stack: Settings, server: str) -> None:
    assert get(stack, server, "/logs/")[0] == 404


def test_no_jvm_has_a_door_for_debuggers_or_managers(stack: Settings) -> None:
    commands = []
    for pid in ProcessFamily(stack).pids():
        with suppress(psutil.Error):  # it has just ended
            commands.append(" ".join(psutil.Process(pid).cmdline()))
    assert len([each for each in commands if "java" in each]) > 6
    assert [each for each in commands if REMOTE.search(each)] == []
