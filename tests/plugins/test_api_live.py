"""The REST API in the real Airflow, behind its real login."""

from __future__ import annotations

import uuid

import httpx
import pytest

from sluice.runtime.settings import Settings
from sluice.stack.airflow.rest_api import Airflow
from sluice.stack.users import Users
from tests.engine.samples import line
from tests.plugins.live import API, BODY, bearer, logged_in

pytestmark = pytest.mark.stack

CONSOLE = "/sluice/console"


def test_nothing_without_a_login(http: httpx.Client, token: str, name: str) -> None:
    for headers in ({}, bearer("x.y.z"), bearer(token[:-4] + "AAAA")):
        assert http.get(f"{API}/tasks", headers=headers).status_code in (401, 403)
    assert http.get(f"{API}/tasks").status_code == 401
    assert http.put(f"{API}/tasks/{name}", json=BODY).status_code == 401
    assert http.get(f"{API}/openapi.json").status_code == 401


def test_a_viewer_does_not_write(http: httpx.Client, stack: Settings, name: str) -> None:
    with logged_in(stack, http, "viewer") as viewer:
        assert http.get(f"{API}/tasks", headers=viewer).status_code == 200
        assert http.put(f"{API}/tasks/{name}", json=BODY, headers=viewer).status_code == 403
    assert http.get(f"{API}/tasks", headers=viewer).status_code == 401  # removed, and locked out at once
    with logged_in(stack, http, "user") as user:
        assert http.put(f"{API}/tasks/{name}", json=BODY, headers=user).status_code == 201


def test_a_wrong_password_opens_nothing_and_soon_not_even_the_right_one_does(
    http: httpx.Client, stack: Settings
) -> None:
    users, user = Users(stack), f"guessed-{uuid.uuid4().hex[:8]}"
    right = {"username": user, "password": users.add(user, "viewer")}
    admin_s = {"username": stack.airflow.user, "password": "x"}
    from_here, elsewhere = "127.77.0.1", "127.77.0.2"
    try:
        for login in ({**right, "password": "x"}, admin_s):
            assert [attempt(stack, login, from_here).status_code for _ in range(5)] == [401] * 5
            refused = attempt(stack, login, from_here)
            assert refused.status_code == 429
            assert 0 < int(refused.headers["Retry-After"]) <= 60
        assert attempt(stack, right, from_here).status_code == 429
        assert attempt(stack, right, elsewhere).status_code == 201
        with Airflow(stack) as airflow:  # nobody locks the platform out
            assert airflow.connections()
    finally:
        users.remove(user)
    service = {"username": stack.hive.user, "password": stack.hive.password}
    assert http.post("/auth/token", json=service).status_code == 401  # the platform's own user is no person


def attempt(stack: Settings, login: dict[str, str], source: str) -> httpx.Response:
    """A log-in that comes from this loopback address, as one through a door does."""
    with httpx.Client(transport=httpx.HTTPTransport(local_address=source), timeout=120) as client:
        return client.post(f"{stack.airflow.url}/auth/token", json=login)


def test_airflow_knows_who_asked(http: httpx.Client, stack: Settings, token: str) -> None:
    """The platform is known by its name, and who asks it for something by his."""
    for who in ("", "ann"):
        with Airflow(stack, who) as airflow:
            airflow.pause("placement")
    logged = http.get(
        "/api/v2/eventLogs",
        params={"order_by": "-id", "event": "patch_dag", "limit": 2},
        headers=bearer(token),
    ).json()["event_logs"]
    assert [each["owner"] for each in logged] == ["ann", "sluice"]


def test_the_cookie_of_the_pages_is_a_login_for_these_pages_only(
    http: httpx.Client, stack: Settings, token: str, name: str
) -> None:
    cookies = {"Cookie": f"_token={token}"}
    assert http.get(f"{API}/tasks", headers=cookies).status_code == 200
    address = f"{API}/tasks/{name}"
    foreign = http.put(address, json=BODY, headers={**cookies, "Origin": "http://evil.example"})
    assert (foreign.status_code, "origin" in foreign.text) == (403, True)
    own = http.put(address, json=BODY, headers={**cookies, "Origin": stack.airflow.url.rstrip("/")})
    assert own.status_code == 201


def test_from_put_to_delete(http: httpx.Client, stack: Settings, token: str, name: str) -> None:
    http.headers.update(bearer(token))
    address = f"{API}/tasks/{name}"
    refused = http.put(address, json={**BODY, "dimensions": [{"name": "d", "extract": {"regex": "("}}]})
    assert refused.status_code == 422
    assert refused.json()["problems"][0]["pointer"] == "/dimensions/0/extract"
    assert http.get(address).status_code == 404
    made = http.put(address, json=BODY)
    assert (made.status_code, made.json()["by"]) == (201, stack.airflow.user)
    assert http.post(f"{address}:pause").json()["state"] == "paused"
    assert http.post(f"{address}:resume").json()["state"] == "active"
    lines = [line(status="404").decode()]
    (tried,) = http.post(f"{address}/test", json={"lines": lines}).json()["lines"]
    assert (tried["counted"], tried["series"]) == (True, {"status": "404"})
    assert [task["name"] for task in http.get(f"{API}/tasks", params={"topic": "api-live"}).json()] == [name]
    (found,) = http.post(f"{API}/diff", json=[{**BODY, "name": name, "period": "5m"}]).json()
    assert found["fields"] == ["period"]
    assert http.delete(address).status_code == 200
    actions = [entry["action"] for entry in http.get(f"{address}/history").json()]
    assert actions == ["created", "paused", "resumed", "deleted"]
    assert "/api/v1/tasks" in http.get(f"{API}/openapi.json").json()["paths"]


def test_lists_and_topics(http: httpx.Client, token: str, name: str) -> None:
    http.headers.update(bearer(token))
    assert http.put(f"{API}/lists/{name}", json={"values": ["a"]}).status_code == 201
    assert http.get(f"{API}/lists/{name}").json()["values"] == ["a"]
    assert http.delete(f"{API}/lists/{name}").status_code == 200
    topic = {"format": "json", "time": {"extract": {"field": "at"}, "format": "iso8601"}}
    assert http.put(f"{API}/topics/{name}", json=topic).status_code == 201
    assert http.get(f"{API}/topics/{name}").json()["format"] == "json"


def test_a_topic_made_by_mistake_is_deleted_on_a_page(
    stack: Settings, http: httpx.Client, token: str, name: str
) -> None:
    topic = {"format": "json", "time": {"extract": {"field": "at"}, "format": "iso8601"}}
    assert http.put(f"{API}/topics/{name}", json=topic, headers=bearer(token)).status_code == 201
    deleting = f"{CONSOLE}/topics/{name}/delete"
    with logged_in(stack, http, "viewer") as viewer:
        seen = http.get(f"{CONSOLE}/topics", headers=viewer).text
        assert (name in seen, deleting in seen) == (True, False)
        assert http.post(deleting, headers=viewer).status_code == 403
    assert deleting in http.get(f"{CONSOLE}/topics", headers=bearer(token)).text
    assert f"Delete topic {name}?" in http.get(deleting, headers=bearer(token)).text
    assert http.post(deleting, headers=bearer(token)).status_code == 303
    assert name not in http.get(f"{CONSOLE}/topics", headers=bearer(token)).text
    assert http.get(deleting, headers=bearer(token)).status_code == 404
    kept = http.get(f"{CONSOLE}/topics/logs/delete", headers=bearer(token))
    assert (kept.status_code, "the platform itself uses it" in kept.text) == (409, True)
