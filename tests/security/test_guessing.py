"""Another user of the host guesses passwords at the doors: he slows himself, and keeps nobody out."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest

from sluice.runtime.settings import Settings, read_secret
from sluice.stack.airflow.rest_api import Airflow
from sluice.stack.networking import network
from sluice.stack.networking.loopback import SOURCES
from sluice.stack.users import Users
from sluice.storage.hive import connect
from tests.security.strangers import _as_stranger, _host_network

pytestmark = pytest.mark.stack

#: Logs in as often as asked, at once, and prints the statuses. It needs nothing but Python's own library.
GUESS = """
import http.client, json, sys
from concurrent.futures import ThreadPoolExecutor
port, name, password, count = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
def guess(_):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = json.dumps({"username": name, "password": password})
    connection.request("POST", "/auth/token", body, {"Content-Type": "application/json"})
    return connection.getresponse().status
with ThreadPoolExecutor(count) as pool:
    print(json.dumps(list(pool.map(guess, range(count)))))
"""


@pytest.fixture
def ann(stack: Settings) -> Iterator[tuple[str, str]]:
    users, name = Users(stack), f"ann-{uuid.uuid4().hex[:8]}"
    yield name, users.add(name, "viewer")
    users.remove(name)


def statuses(before: list[str], settings: Settings, name: str, password: str, count: int) -> list[int]:
    """What the door says to these log-ins at once."""
    argv = [
        *before,
        "/usr/bin/python3",
        "-c",
        GUESS,
        str(settings.port("airflow")),
        name,
        password,
        str(count),
    ]
    done = subprocess.run(argv, cwd="/", capture_output=True, text=True, timeout=120, check=True)
    return list(json.loads(done.stdout))


def test_a_stranger_keeps_nobody_out(stack: Settings, ann: tuple[str, str]) -> None:
    if os.geteuid() != 0 or not stack.private:
        pytest.skip("only root can be another user, and only a network of its own has doors")
    host = _host_network()
    stranger, oneself = _as_stranger(host), ["nsenter", f"--net={host}", "--"]
    admin = stack.airflow.user, read_secret(stack.home, "airflow_admin")
    for name, password in (ann, admin):
        said = statuses(stranger, stack, name, "guess", 14)
        assert said.count(401) <= 5
        assert set(said) <= {401, 429}
        assert statuses(stranger, stack, name, password, 1) == [429]
        assert statuses(oneself, stack, name, password, 1) == [201]
    with Airflow(stack) as airflow:
        assert airflow.connections()
    where = stack.hive.model_copy(update={"user": ann[0], "password": ann[1]})
    with closing(connect(where, 60)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SELECT 1")
    sources = json.loads((network.folder(stack) / SOURCES).read_text())
    assert {"uid:0"} < set(sources.values())
