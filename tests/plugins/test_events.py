"""Events behind a real server: who listens, how long, and that one poll serves all."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from jwt import InvalidTokenError

from sluice.runtime.settings import ROOT
from sluice.storage.tables.news import NewsSnapshot
from sluice.tasks.store import TaskStore
from sluice_lab.waiting import SECONDS, until
from tests.engine.samples import spec
from tests.loops import run
from tests.plugins.application import API, Login
from tests.plugins.served import served
from tests.plugins.test_told import look


class Watched:
    """What is new, as the test says; it counts the polls."""

    def __init__(self) -> None:
        self.now, self.polls, self.fails = look(1, {"hits": 1, "sizes": 1}), 0, False

    def look(self) -> NewsSnapshot:
        self.polls += 1
        if self.fails:
            raise OSError("PostgreSQL went away")
        return self.now


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def address(
    client: Any, login: Login, database: sa.Engine, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A server with tasks hits and sizes and three places for listeners; a viewer is logged in."""
    from sluice_airflow.api import hub, stores

    TaskStore(database).apply([spec(name="hits"), spec(name="sizes")], "test")
    login.as_("viewer")

    async def known(token: str) -> Login:
        if login.name is None:
            raise InvalidTokenError
        return login

    login.get_user_from_token = known  # type: ignore[attr-defined]
    monkeypatch.setattr(hub, "HEARTBEAT_SECONDS", 0.1)
    own = hub.Hub(watched.look, seconds=0.02, most=3)
    client.app.dependency_overrides[stores.hub] = lambda: own
    with served(client.app) as at:
        yield at + API


@contextmanager
def listening(address: str, path: str = "/events", **options: Any) -> Iterator[Iterator[str]]:
    """The lines that a listener gets."""
    with httpx.stream("GET", address + path, timeout=SECONDS, **options) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        yield answer.iter_lines()


def following(lines: Iterator[str], kind: str) -> dict[str, Any]:
    """The data of the next event of this kind."""
    deadline = time.monotonic() + 20
    for line in lines:
        if line == f"event: {kind}":
            found: dict[str, Any] = json.loads(next(lines).removeprefix("data: "))
            return found
        assert time.monotonic() < deadline, f"no {kind}"
    raise AssertionError(f"the events ended without {kind}")


def test_a_listener_hears_of_a_commit(address: str, watched: Watched) -> None:
    with listening(address) as lines, listening(address, "/tasks/sizes/events") as only:
        assert following(lines, "commit")["tasks"] == {"hits": 1, "sizes": 3}
        assert following(only, "commit")["tasks"] == {"sizes": 3}
        watched.now = look(2, {"hits": 2, "sizes": 1})
        assert following(lines, "commit") == {"topic": "logs", "commit": 2, "tasks": {"hits": 1}}
        watched.now = look(3, {"hits": 2, "sizes": 3})
        assert following(only, "commit")["commit"] == 3
    with listening(address, headers={"last-event-id": "logs=2."}) as lines:
        assert following(lines, "commit")["tasks"] == {"sizes": 3}
    with listening(address, params={"task": ["hits"]}) as lines:
        assert following(lines, "commit")["tasks"] == {"hits": 1}


@pytest.mark.slow
def test_one_poll_serves_all_and_nobody_polls_for_nobody(address: str, watched: Watched) -> None:
    with ExitStack() as several:
        listeners = [several.enter_context(listening(address)) for _ in range(3)]
        assert [following(lines, "commit")["commit"] for lines in listeners] == [1, 1, 1]
        begun, before = time.monotonic(), watched.polls
        time.sleep(0.3)
        polls, seconds = watched.polls - before, time.monotonic() - begun
        assert polls < 20 * seconds / 0.3  # 15 polls of 0.02 s in 0.3 s, not three times as many
        with httpx.stream("GET", f"{address}/events", timeout=SECONDS) as refused:
            assert (refused.status_code, int(refused.headers["retry-after"])) == (503, 15)

    def rests() -> bool:
        before = watched.polls
        time.sleep(0.2)
        return watched.polls == before

    until(rests)
    with listening(address) as lines:  # who left made room, and the polls begin again
        following(lines, "commit")


def test_heartbeats_keep_a_silent_connection(address: str, watched: Watched) -> None:
    with listening(address) as lines:
        following(lines, "commit")
        assert [line for line in (next(lines) for _ in range(5)) if line == ": alive"]


@pytest.mark.slow
def test_a_session_that_ends_ends_its_events(address: str, login: Login) -> None:
    with listening(address) as lines:
        following(lines, "commit")
        login.name = None
        assert "log in again" in following(lines, "end")["reason"]
        assert list(lines) == [""]
    assert httpx.get(f"{address}/events", timeout=SECONDS).status_code == 401


def test_a_session_ends_also_while_there_is_news_all_the_time(
    address: str, login: Login, watched: Watched
) -> None:
    with listening(address) as lines:
        following(lines, "commit")
        done = threading.Event()

        def busy() -> None:
            commit = 1
            while not done.is_set():
                commit += 1
                watched.now = look(commit, {"hits": commit})
                time.sleep(0.02)

        thread = threading.Thread(target=busy)
        thread.start()
        login.name = None
        assert "reason" in following(lines, "end")
        done.set()
        thread.join()


def test_listeners_outlast_a_database_that_goes_away(address: str, watched: Watched) -> None:
    with listening(address) as lines:
        following(lines, "commit")
        watched.fails = True
        time.sleep(0.2)
        watched.now, watched.fails = look(2, {"hits": 2}), False
        assert following(lines, "commit")["commit"] == 2


@pytest.mark.slow
def test_a_task_that_is_none_has_no_events(address: str) -> None:
    for path in ("/tasks/nothing/events", "/events?task=nothing"):
        assert httpx.get(address + path, timeout=SECONDS).status_code == 404


SERVER = """
import asyncio, sys, uvicorn
sys.path += ["plugins"]
from sluice_airflow.api.events import Listening
from sluice_airflow.api import hub as hubs
from sluice_airflow.api.told import EventListener
from tests.plugins.test_told import look

hubs.HEARTBEAT_SECONDS = 3600.0  # so it is the poll that ends the events
hub = hubs.Hub(lambda: look(1, {}), seconds=0.1)

async def lasts():
    return True

async def app(scope, receive, send):
    if scope["type"] == "http":
        await Listening(hub, EventListener(None, {}), lasts)(scope, receive, send)

uvicorn.run(app, port=int(sys.argv[1]), log_level="critical", lifespan="off")
"""


@pytest.mark.slow
def test_a_server_stops_although_somebody_listens(tmp_path: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(port)], cwd=ROOT)
    try:
        until(lambda: _answers(port))
        with httpx.stream("GET", f"http://127.0.0.1:{port}/", timeout=SECONDS) as answer:
            lines = answer.iter_lines()
            following(lines, "commit")
            server.send_signal(signal.SIGTERM)
            assert server.wait(SECONDS) is not None
    finally:
        server.kill()


def _answers(port: int) -> bool:
    try:
        with httpx.stream("GET", f"http://127.0.0.1:{port}/") as answer:
            return answer.status_code == 200
    except httpx.HTTPError:
        return False


def test_the_documents_example_is_as_events_are(client: Any, login: Login) -> None:
    from sluice_airflow.api.told import position

    login.as_("viewer")
    paths = client.get(f"{API}/openapi.json").json()["paths"]
    for path in ("/events", "/tasks/{name}/events"):
        answer = paths[API + path]["get"]["responses"]["200"]
        text = answer["content"]["text/event-stream"]["example"]
        events = [
            dict(line.split(": ", 1) for line in part.splitlines())
            for part in text.split("\n\n")
            if "id" in part
        ]
        kinds = [each["event"] for each in events]
        assert kinds == ["commit", "publication", "backfill", "superseded"]
        for each in events:
            assert position(each["id"])
            assert {"topic", "tasks"} <= json.loads(each["data"]).keys()


def test_a_listener_that_waits_costs_no_thread() -> None:
    """A hub with listeners runs in the event loop, and only the poll is in a thread."""
    from sluice_airflow.api.hub import Hub

    async def looked_at() -> int:
        hub = Hub(lambda: look(1, {}), seconds=0.01, most=100)
        woken = [hub.join() for _ in range(50)]
        tasks = [asyncio.create_task(anext(aiter(hub.looks(each, 5)))) for each in woken]
        assert all(found == look(1, {}) for found in await asyncio.gather(*tasks))
        number = threading.active_count()
        for each in woken:
            hub.leave(each)
        return number

    before = threading.active_count()
    assert run(looked_at()) - before < 10
