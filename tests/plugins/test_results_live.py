"""Results and events over REST in the real Airflow, from real blocks of both layers."""

from __future__ import annotations

import csv
import io
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest

from sluice.runtime.settings import Settings
from sluice.stack.users import Role
from tests.plugins.live import API, logged_in
from tests.results.hours import DAY_MS, FIRST, Hours, counting, direct

__all__ = ["counting"]

pytestmark = pytest.mark.stack

ARROW = "application/vnd.apache.arrow.stream"
ROLES: tuple[Role, ...] = ("viewer", "user", "op", "admin")


@pytest.fixture
def ask(http: httpx.Client, counting: Hours, token: str) -> Callable[..., httpx.Response]:
    """Ask for the topic's results; keywords are parameters, `headers` are added."""

    def get(headers: dict[str, str] | None = None, **params: Any) -> httpx.Response:
        address = f"{API}/tasks/{counting.name}/results"
        return http.get(
            address, params=params, headers={"Authorization": f"Bearer {token}", **(headers or {})}
        )

    return get


def test_published_and_open_days_come_in_one_answer(
    counting: Hours, ask: Callable[..., httpx.Response]
) -> None:
    counting.commit(counting.partials)
    counting.publish()
    found = ask().json()
    assert [(row["client"], row["count"]) for row in found["rows"]] == [row[1:] for row in direct()]
    assert [
        (span["state"], span["periods"], span["commit"], span["run_id"]) for span in found["periods"]
    ] == [
        ("final", 24, None, "run-2015-05-17"),
        ("open", 24, 1, None),
    ]
    lines = list(csv.DictReader(io.StringIO(ask(format="csv").text)))
    assert [(row["client"], int(row["count"])) for row in lines] == [row[1:] for row in direct()]
    table = pa.ipc.open_stream(ask({"Accept": ARROW}).content).read_all()
    assert table.column("count").to_pylist() == [row[2] for row in direct()]
    top = ask(where="client=c1", rollup="client,1d", since="2015-05-17", until="2015-05-18").json()
    assert [(row["client"], row["count"]) for row in top["rows"]] == [("c1", 24)]


def test_a_tag_lasts_until_a_commit_and_a_publication(
    counting: Hours, ask: Callable[..., httpx.Response]
) -> None:
    first_day = {"since": "2015-05-17", "until": "2015-05-18"}
    second_day = {"since": "2015-05-18"}

    def tag(known: str = "", **params: str) -> tuple[int, str]:
        answer = ask({"If-None-Match": known} if known else None, **params)
        return answer.status_code, answer.headers["etag"]

    counting.commit(counting.partials)
    _, opened = tag(**first_day)
    assert tag(opened, **first_day) == (304, opened)
    counting.publish()
    status, published = tag(opened, **first_day)
    assert (status, published != opened) == (200, True)
    _, other = tag(**second_day)
    counting.commit(counting.partials.slice(72, 3))  # of the second day alone
    assert tag(published, **first_day) == (304, published)
    status, newer = tag(other, **second_day)
    assert (status, newer != other) == (200, True)
    counting.publish()
    status, again = tag(published, **first_day)
    assert (status, again != published) == (200, True)


def test_a_tag_has_one_answer_whatever_happens_meanwhile(
    counting: Hours, stack: Settings, token: str
) -> None:
    """Readers run while commits and publications go on; an answer with a known tag must be the known one."""
    counting.commit(counting.partials)
    bodies: dict[str, set[bytes]] = {}
    wrong: list[object] = []
    stop = threading.Event()

    def reader() -> None:
        headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"}
        with httpx.Client(base_url=stack.airflow.url, timeout=120, trust_env=False, headers=headers) as own:
            while not stop.is_set():
                answer = own.get(f"{API}/tasks/{counting.name}/results")
                rows = [(row["period"], row["client"]) for row in answer.json()["rows"]]
                if len(rows) != len(set(rows)) or len(rows) != len(direct()):
                    wrong.append(len(rows))
                if "etag" in answer.headers:
                    bodies.setdefault(answer.headers["etag"], set()).add(answer.content)

    readers = [threading.Thread(target=reader) for _ in range(3)]
    for thread in readers:
        thread.start()
    end = time.monotonic() + 8
    while (time.monotonic() < end or len(bodies) <= 3) and not wrong:
        counting.commit(counting.partials.slice(72, 3))
        counting.publish()
        time.sleep(0.1)
    stop.set()
    for thread in readers:
        thread.join(60)
    assert not wrong
    assert len(bodies) > 3
    assert all(len(each) == 1 for each in bodies.values())


def test_pages_follow_each_other(
    counting: Hours, ask: Callable[..., httpx.Response], http: httpx.Client, token: str
) -> None:
    counting.commit(counting.partials)
    counting.publish()
    answer, number = ask(limit=50, where="client^=c"), 0
    while True:
        found = answer.json()
        number += len(found["rows"])
        if found["next"] is None:
            break
        answer = http.get(found["next"], headers={"Authorization": f"Bearer {token}"})
    assert number == len(direct())


def test_answers_are_packed_for_who_asks(counting: Hours, ask: Callable[..., httpx.Response]) -> None:
    counting.commit(counting.partials)
    packed, plain = ask({"Accept-Encoding": "gzip"}), ask({"Accept-Encoding": "identity"})
    assert (packed.headers["content-encoding"], "content-encoding" in plain.headers) == ("gzip", False)
    assert packed.json() == plain.json()
    assert packed.headers["etag"] != plain.headers["etag"]


@pytest.mark.parametrize("role", ROLES)
def test_every_role_reads_results_and_events(
    counting: Hours, http: httpx.Client, stack: Settings, role: Role
) -> None:
    counting.commit(counting.partials.slice(0, 3))
    with logged_in(stack, http, role) as headers:
        assert http.get(f"{API}/tasks/{counting.name}/results", headers=headers).status_code == 200
        with http.stream("GET", f"{API}/tasks/{counting.name}/events", headers=headers) as answer:
            assert event(answer.iter_lines(), "commit")["commit"] == 1


def test_nobody_reads_without_a_login(counting: Hours, http: httpx.Client, stack: Settings) -> None:
    addresses = [f"{API}/tasks/{counting.name}/{part}" for part in ("results", "events")] + [f"{API}/events"]
    for address in addresses:
        assert http.get(address).status_code == 401
    with logged_in(stack, http, "viewer") as headers:
        pass  # the user is removed, and the log-in ends with it
    for address in addresses:
        assert http.get(address, headers=headers).status_code == 401


@pytest.mark.parametrize(
    ("params", "status"),
    [
        ({"where": "client='; DROP TABLE commits; --"}, 200),
        ({"where": "client=\ud7ff\U0001f4a9\u202e"}, 200),
        ({"where": "client~=(a+)+$"}, 200),
        ({"where": "client~=" + "(" * 2_000}, 422),
        ({"since": "9" * 18}, 422),
        ({"since": "0001-01-01", "until": "9999-12-31"}, 200),
        ({"version": "2147483647"}, 404),
        ({"version": "9" * 30}, 422),
        ({"offset": "999999999999"}, 200),
        ({"where": "client=\0"}, 400),
        ({"top": "1:__class__"}, 422),
    ],
)
def test_hostile_values_are_answered_or_refused(
    counting: Hours, ask: Callable[..., httpx.Response], params: dict[str, str], status: int
) -> None:
    counting.commit(counting.partials.slice(0, 3))
    answer = ask(**params)
    assert answer.status_code == status, answer.text
    assert len(answer.text) < 3_000


def test_a_task_that_is_none_is_not_found(http: httpx.Client, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    for part in ("results", "events"):
        answer = http.get(f"{API}/tasks/{secrets.token_hex(8)}/{part}", headers=headers)
        assert answer.status_code == 404


def event(lines: Iterator[str], kind: str) -> dict[str, Any]:
    for line in lines:
        if line == f"event: {kind}":
            found: dict[str, Any] = json.loads(next(lines).removeprefix("data: "))
            return found
    raise AssertionError(f"no {kind}")


def test_a_listener_hears_of_a_commit_and_of_a_publication(
    counting: Hours, http: httpx.Client, token: str
) -> None:
    counting.commit(counting.partials)
    headers = {"Authorization": f"Bearer {token}"}
    with http.stream("GET", f"{API}/tasks/{counting.name}/events", headers=headers) as answer:
        lines = answer.iter_lines()
        assert event(lines, "commit")["commit"] == 1
        later = threading.Timer(0.5, lambda: counting.commit(counting.partials.slice(72, 3)))
        later.start()
        own = {"topic": counting.topic, "tasks": {counting.name: 1}}
        assert event(lines, "commit") == {**own, "commit": 2}
        later.join()
        counting.publish()
        said = event(lines, "publication")
        assert (said["day"], said["tasks"]) == ("2015-05-17", {counting.name: 1})
    with http.stream(
        "GET",
        f"{API}/events",
        params={"task": counting.name},
        headers={**headers, "Last-Event-ID": f"{counting.topic}=1."},
    ) as answer:
        assert event(answer.iter_lines(), "commit")["commit"] == 2


def test_listeners_that_leave_make_room(counting: Hours, http: httpx.Client, token: str) -> None:
    counting.commit(counting.partials.slice(0, 3))
    for _ in range(40):  # more than may listen at a time
        with http.stream(
            "GET", f"{API}/tasks/{counting.name}/events", headers={"Authorization": f"Bearer {token}"}
        ) as answer:
            assert answer.status_code == 200
            event(answer.iter_lines(), "commit")


def test_a_removed_user_hears_no_more(counting: Hours, http: httpx.Client, stack: Settings) -> None:
    counting.commit(counting.partials.slice(0, 3))
    with logged_in(stack, http, "viewer") as headers:
        stream = http.stream("GET", f"{API}/tasks/{counting.name}/events", headers=headers)
        answer = stream.__enter__()
        lines = answer.iter_lines()
        event(lines, "commit")
    assert "log in again" in event(lines, "end")["reason"]  # at the next heartbeat
    stream.__exit__(None, None, None)


def test_an_open_day_and_its_publication_have_the_same_numbers(
    counting: Hours, ask: Callable[..., httpx.Response]
) -> None:
    counting.commit(counting.partials)
    before = ask(until=str(FIRST + DAY_MS)).json()["rows"]
    counting.publish()
    after = ask(until=str(FIRST + DAY_MS)).json()["rows"]
    assert [{**row, "state": ""} for row in before] == [{**row, "state": ""} for row in after]
    assert {row["state"] for row in after} == {"final"}
