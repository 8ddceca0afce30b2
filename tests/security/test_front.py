"""Attacks on Airflow's door by another user of the machine, and with the headers of another site's page.

The same requests with the right login succeed, so none fails by a mistake of its own.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest

from sluice.runtime.settings import Settings
from sluice.stack.process_groups import of_daemon
from sluice_lab.browser.people import known
from tests.security.routes import airflow_routes
from tests.security.strangers import ASK, Stranger, outside

pytestmark = pytest.mark.stack

LOG_IN = "/auth/token"
MIB = 1 << 20
#: What a stranger's program does: it is given the port and what is in braces.
SEND = """
import http.client, json, time
connection = http.client.HTTPConnection("127.0.0.1", {port}, timeout=60)
connection.putrequest("POST", {path!r})
connection.putheader("Content-Type", "application/json")
connection.putheader("Transfer-Encoding", "chunked")
connection.endheaders()
began, piece, sent = time.monotonic(), b"[]," * 349525, 0
try:
    for sent in range(1, 97):
        connection.send(b"%x\\r\\n" % len(piece) + piece + b"\\r\\n")
    connection.send(b"0\\r\\n\\r\\n")
except OSError:
    pass
answer = connection.getresponse()
print(json.dumps([answer.status, time.monotonic() - began, sent]))
"""
HOLD = """
import socket, sys, time
held = []
for _ in range(200):
    try:
        held.append(socket.create_connection(("127.0.0.1", {port}), timeout=5))
        held[-1].sendall({start!r})
    except OSError:
        pass
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def stranger(stack: Settings) -> Stranger:
    if not stack.private:
        pytest.skip("the instance runs in the host's network, where its daemons answer everybody")
    return Stranger(stack)


@pytest.fixture(scope="module")
def http_client(stack: Settings) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=stack.airflow.url, timeout=60, trust_env=False) as client:
        yield client


@pytest.fixture(scope="module")
def ann(stack: Settings) -> Iterator[dict[str, str]]:
    with known(stack, "user") as login:
        yield login


@pytest.fixture(scope="module")
def bearer(http_client: httpx.Client, ann: dict[str, str]) -> dict[str, str]:
    token = http_client.post(LOG_IN, json=ann).json()["access_token"]
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def cookie(stack: Settings, http_client: httpx.Client, ann: dict[str, str]) -> dict[str, str]:
    """The cookie that a page gets that logs in."""
    answer = http_client.post(LOG_IN, json=ann, headers={"Origin": stack.airflow.url})
    http_client.cookies.clear()
    return {"Cookie": answer.headers["set-cookie"].partition(";")[0]}


def memory(settings: Settings) -> int:
    """Bytes that the API server has."""
    return max(int(each.memory_info().rss) for each in of_daemon(settings, "airflow-api"))


@pytest.mark.parametrize("path", [LOG_IN, "/api/v2/backfills"])
def test_a_stranger_sends_96_mib_and_nobody_notices(
    stack: Settings, stranger: Stranger, http_client: httpx.Client, bearer: dict[str, str], path: str
) -> None:
    http_client.get("/api/v2/version")
    before, slowest, most = memory(stack), 0.0, 0
    with stranger.running(SEND, path=path) as sending:
        while sending.poll() is None:
            began = time.monotonic()
            assert http_client.get("/api/v2/dags", headers=bearer).status_code == 200
            slowest, most = max(slowest, time.monotonic() - began), max(most, memory(stack))
        assert sending.stdout is not None
        status, seconds, _ = json.loads(sending.stdout.read())
    assert status == (413 if path == LOG_IN else 401)
    assert (slowest < 3, seconds < 10) == (True, True), (slowest, seconds)
    assert most - before < 12 * MIB, (before, most)


def test_every_route_refuses_a_large_body_before_it_is_read(
    stack: Settings, http_client: httpx.Client, bearer: dict[str, str]
) -> None:
    """Only a head is sent, so a route that waited for the body would not answer."""
    writes = [(method, path) for method, path in airflow_routes() if method in ("POST", "PUT", "PATCH")]
    assert len(writes) > 50
    for method, path in writes:
        for headers, allowed in (({}, {401, 413}), (bearer, {401, 403, 413})):
            with closing(http.client.HTTPConnection("127.0.0.1", stack.port("airflow"), timeout=10)) as sent:
                sent.putrequest(method, path.replace("{", "").replace("}", ""))
                lengths = {"Content-Type": "application/json", "Content-Length": str(64 * MIB)}
                for name, value in (lengths | headers).items():
                    sent.putheader(name, value)
                sent.endheaders()
                assert sent.getresponse().status in allowed, (method, path)


@pytest.mark.parametrize("start", [b"", b"GET /auth/login HTTP/1.1\r\nHost: x\r\n\r\n", b"GET / HT"])
def test_a_stranger_who_takes_all_connections_keeps_nobody_out(stranger: Stranger, start: bytes) -> None:
    with stranger.running(HOLD, start=start) as holding:
        assert holding.stdout is not None
        assert holding.stdout.readline() == "held\n"
        for _ in range(5):
            began = time.monotonic()
            ask = ASK.format(port=stranger.settings.port("airflow"))
            command = [*outside(stranger=False), "-c", ask, "{}"]
            answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
            assert (answer.stdout.strip(), time.monotonic() - began < 5) == ("401", True)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:29999"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://evil.example:1", "Host": "evil.example:1"},
        {},
    ],
)
def test_no_route_of_airflow_lets_another_page_change_anything(
    http_client: httpx.Client, cookie: dict[str, str], headers: dict[str, str]
) -> None:
    writes = [(method, path) for method, path in airflow_routes() if method not in ("GET", "HEAD", "OPTIONS")]
    for method, path in writes:
        if path not in ("/auth/token", "/auth/token/cli"):
            place = path.replace("{", "").replace("}", "")
            assert http_client.request(method, place, headers=cookie | headers).status_code == 403, path
    if headers:  # a program may log out
        assert http_client.get("/api/v2/auth/logout", headers=cookie | headers).status_code == 403


def test_this_servers_own_pages_and_programs_change_what_they_may(
    stack: Settings, http_client: httpx.Client, cookie: dict[str, str], bearer: dict[str, str]
) -> None:
    own = cookie | {"Origin": stack.airflow.url, "Sec-Fetch-Site": "same-origin"}
    for headers in (own, bearer):
        for what in ("favorite", "unfavorite"):
            answer = http_client.post(f"/api/v2/dags/retention/{what}", headers=headers)
            assert answer.status_code == 204, answer.text


def test_a_log_in_cannot_be_used_by_another_user_of_the_machine(
    stranger: Stranger, http_client: httpx.Client, cookie: dict[str, str]
) -> None:
    assert http_client.get("/api/v2/dags", headers=cookie).status_code == 200
    assert stranger.run(ASK, json.dumps(cookie)) == "401"
    value = cookie["Cookie"].partition("=")[2]
    assert stranger.run(ASK, json.dumps({"Authorization": f"Bearer {value}"})) == "403"
