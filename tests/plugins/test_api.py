"""The REST API as a program meets it; the login is a double (a real one: test_api_live.py)."""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from sluice.runtime.throttle import Rate
from tests.cli.routed import document
from tests.engine.samples import line
from tests.plugins.application import API, Login

HITS = {"name": "hits", "topic": "logs", "period": "1m", "metrics": ["count"]}
STATUS = {"name": "status", "extract": {"delimiter": " ", "index": 8}}


JSON = {"content-type": "application/json"}


def with_status(**changes: Any) -> dict[str, Any]:
    return {**HITS, "dimensions": [{**STATUS, **changes}]}


def problems(response: Any) -> list[str]:
    assert response.status_code == 422, response.text
    return [each["pointer"] for each in response.json()["problems"]]


READS = [
    ("GET", "/tasks"),
    ("GET", "/tasks/hits"),
    ("GET", "/tasks/hits/history"),
    ("GET", "/tasks/hits/grouping"),
    ("GET", "/tasks/hits/hotkeys"),
    ("GET", "/tasks/hits/results"),
    ("GET", "/tasks/hits/events"),
    ("GET", "/events"),
    ("GET", "/sql/statements"),
    ("DELETE", "/sql/statements/1"),
    ("POST", "/sql/password"),
    ("POST", "/tasks/hits/test"),
    ("POST", "/test"),
    ("POST", "/diff"),
    ("GET", "/lists"),
    ("GET", "/lists/good"),
    ("GET", "/topics"),
    ("GET", "/topics/logs"),
    ("GET", "/topics/logs/rebuilds"),
    ("GET", "/topics/logs/rebuilds/plan"),
    ("GET", "/lag"),
    ("GET", "/placement/plan"),
    ("GET", "/history"),
    ("GET", "/openapi.json"),
]
WRITES = [
    ("GET", "/tasks/hits/lines?period=2015-05-17"),
    ("POST", "/tasks"),
    ("PUT", "/tasks/hits"),
    ("DELETE", "/tasks/hits"),
    ("POST", "/tasks/hits:pause"),
    ("POST", "/tasks/hits:resume"),
    ("PUT", "/lists/good"),
    ("DELETE", "/lists/good"),
    ("PUT", "/topics/logs"),
    ("DELETE", "/topics/logs"),
    ("POST", "/topics/logs/rebuilds"),
]


def test_a_topic_that_is_used_is_not_deleted(client: TestClient, login: Login) -> None:
    login.as_("user")
    refused = client.delete(f"{API}/topics/logs")
    assert (refused.status_code, "the platform itself uses it" in refused.text) == (409, True)


def test_the_tables_of_this_test_name_every_route(client: TestClient) -> None:
    from fastapi.routing import APIRoute

    there = {
        (
            method,
            route.path.removeprefix(API)
            .replace("{name}", "logs" if "topics" in route.path else "good")
            .replace("{statement}", "1"),
        )
        for route in routes(client.app)
        if isinstance(route, APIRoute)
        for method in route.methods
        if route.path.startswith(API)  # the others: test_metrics_page.py, test_console.py
    }
    named = {(method, path.partition("?")[0].replace("hits", "good")) for method, path in (*READS, *WRITES)}
    assert there == named


def routes(app: Any) -> list[Any]:
    """All routes, also of included routers, which newer versions of FastAPI keep apart."""
    found = []
    for route in app.routes:
        inner = getattr(route, "routes", None)
        found += routes(route) if inner else [route]
    return found


@pytest.mark.parametrize(("method", "path"), [*READS, *WRITES])
def test_nothing_without_a_login_or_a_right(client: TestClient, login: Login, method: str, path: str) -> None:
    assert client.request(method, API + path, json={}).status_code == 401
    login.as_("stranger")
    assert client.request(method, API + path, json={}).status_code == 403


@pytest.mark.parametrize(("method", "path"), WRITES)
def test_a_viewer_does_not_write(client: TestClient, login: Login, method: str, path: str) -> None:
    login.as_("viewer")
    response = client.request(method, API + path, json=HITS)
    assert (response.status_code, "may not edit DAGs" in response.text) == (403, True)


@pytest.mark.slow
def test_a_task_from_put_to_delete(client: TestClient, login: Login) -> None:
    login.as_("user")
    made = client.put(f"{API}/tasks/hits", json={**HITS, "dimensions": [STATUS]})
    assert (made.status_code, made.json()["by"], made.json()["version"]) == (201, "ann", 1)
    again = client.put(f"{API}/tasks/hits", json=made.json()["task"])  # it takes the task as it answered it
    assert (again.status_code, again.json()["version"]) == (200, 1)
    login.as_("user", "bob")
    body = {key: value for key, value in HITS.items() if key != "name"}
    assert client.put(f"{API}/tasks/hits", json={**body, "period": "5m"}).json()["version"] == 2
    assert client.post(f"{API}/tasks/hits:pause").json()["state"] == "paused"
    assert client.post(f"{API}/tasks/hits:resume").json()["state"] == "active"
    assert [task["name"] for task in client.get(f"{API}/tasks", params={"topic": "logs"}).json()] == ["hits"]
    assert client.get(f"{API}/tasks", params={"topic": "other"}).json() == []
    assert client.delete(f"{API}/tasks/hits").json()["version"] == 2
    for method in ("GET", "DELETE"):
        assert client.request(method, f"{API}/tasks/nothing").status_code == 404
    entries = client.get(f"{API}/tasks/hits/history").json()
    assert [(entry["action"], entry["by"]) for entry in entries] == [
        ("created", "ann"),
        ("changed", "bob"),
        ("paused", "bob"),
        ("resumed", "bob"),
        ("deleted", "bob"),
    ]


def test_of_two_users_who_change_a_task_the_second_is_told(client: TestClient, login: Login) -> None:
    login.as_("user")
    assert client.put(f"{API}/tasks/hits", json=HITS, headers={"If-None-Match": "*"}).status_code == 201
    assert client.put(f"{API}/tasks/hits", json=HITS, headers={"If-None-Match": "*"}).status_code == 412
    tag = client.get(f"{API}/tasks/hits").headers["etag"]
    changed = client.put(f"{API}/tasks/hits", json={**HITS, "period": "5m"}, headers={"If-Match": tag})
    assert (changed.status_code, changed.json()["version"]) == (200, 2)
    login.as_("user", "bob")
    late = client.put(f"{API}/tasks/hits", json={**HITS, "period": "1h"}, headers={"If-Match": tag})
    assert (late.status_code, "ann made its version 2" in late.text) == (412, True)
    assert client.get(f"{API}/tasks/hits").headers["etag"] == changed.headers["etag"]
    client.delete(f"{API}/tasks/hits")
    gone = client.put(f"{API}/tasks/hits", json=HITS, headers={"If-Match": changed.headers["etag"]})
    assert (gone.status_code, "deleted meanwhile" in gone.text) == (412, True)
    assert client.put(f"{API}/tasks/hits", json=HITS, headers={"If-Match": "*"}).status_code == 400


def test_several_tasks_at_once_all_or_nothing(client: TestClient, login: Login) -> None:
    login.as_("user")
    bad = {**HITS, "name": "sizes", "metrics": ["sum"], "colour": "red"}
    assert problems(client.post(f"{API}/tasks", json=[HITS, bad])) == ["/1/colour"]
    assert client.get(f"{API}/tasks").json() == []
    changes = client.post(f"{API}/tasks", json=[HITS, {**HITS, "name": "more"}]).json()
    assert [(each["name"], each["action"]) for each in changes] == [("hits", "created"), ("more", "created")]
    (found,) = client.post(f"{API}/diff", json=[{**HITS, "period": "1h"}]).json()
    assert (found["action"], found["fields"]) == ("changed", ["period"])
    assert "+  period: 1h" in found["diff"]


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({**HITS, "period": "1y"}, ["/period"]),
        ({**HITS, "period": 60}, ["/period"]),
        ({**HITS, "grouping": "fast"}, ["/grouping"]),
        ({**HITS, "grouping": {"strategy": "planned", "half_life": 0}}, ["/grouping"]),
        ({**HITS, "grouping": {"strategy": "planned", "<b>": 1}}, ["/grouping"]),
        (with_status(extract={"regex": "(?=x)"}), ["/dimensions/0/extract"]),
        (with_status(extract={"field": "colour"}), ["/dimensions/0/extract/field"]),
        (with_status(filter={"mode": "white", "set": "x"}), ["/dimensions/0/filter/set"]),
        (with_status(filter={"mode": "white", "values": ["a\0b"]}), ["/dimensions/0/filter/values/0"]),
        (with_status(filter={"mode": "white", "values": ["a", "\ud800"]}), ["/dimensions/0/filter/values/1"]),
        ({**HITS, "name": "other"}, ["/name"]),
        ({**HITS, "topic": "a\0b"}, ["/topic"]),
        ([HITS], [""]),
        ("hits", [""]),
        (None, [""]),
        ({"sql": "DROP TABLE tasks"}, ["/sql"]),
        ({"sql": "SELECT count(*) FROM logs WHERE a = '\ud800'"}, ["/sql"]),
        ({"sql": "SELECT count(*) FROM logs GROUP BY period('60s') HAVING count(*) > 1"}, ["/sql"]),
    ],
)
def test_a_refusal_says_where(client: TestClient, login: Login, body: Any, pointers: list[str]) -> None:
    login.as_("user")
    response = client.put(f"{API}/tasks/hits", content=json.dumps(body), headers=JSON)
    assert problems(response) == pointers, response.text
    assert client.get(f"{API}/tasks").json() == []


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b'{"a": 1', b"[" * 200_000])
def test_a_body_that_is_no_json(client: TestClient, login: Login, content: bytes) -> None:
    login.as_("user")
    response = client.put(f"{API}/tasks/hits", content=content, headers=JSON)
    assert response.status_code in (400, 422)


@pytest.mark.slow
def test_lists_and_tasks_that_use_them(client: TestClient, login: Login) -> None:
    login.as_("user")
    assert client.put(f"{API}/lists/good", json={"values": ["200"]}).status_code == 201
    dimension = {**STATUS, "filter": {"mode": "white", "set": "good"}}
    assert client.put(f"{API}/tasks/hits", json={**HITS, "dimensions": [dimension]}).json()["lists"] == {
        "good": 1
    }
    changed = client.put(f"{API}/lists/good", json={"values": ["200", "304"]})
    assert (changed.status_code, changed.json()["tasks"][0]["version"]) == (200, 2)
    assert client.get(f"{API}/lists/good").json()["tasks"] == ["hits"]
    assert client.delete(f"{API}/lists/good").status_code == 409
    assert client.delete(f"{API}/lists/nothing").status_code == 404
    for values in ([], [1], "x", None, ["a\u0000"], ["\ud800"]):
        refused = client.put(f"{API}/lists/good", content=json.dumps({"values": values}), headers=JSON)
        assert problems(refused) == ["/values"]
    assert problems(client.put(f"{API}/lists/Good", json={"values": ["x"]})) == ["/values"]
    assert problems(client.put(f"{API}/lists/good", json={})) == ["/values"]
    client.delete(f"{API}/tasks/hits")
    assert client.delete(f"{API}/lists/good").status_code == 200


def test_topics(client: TestClient, login: Login) -> None:
    login.as_("user")
    shop = {"format": "json", "time": {"extract": {"field": "at"}, "format": "iso8601"}}
    assert client.get(f"{API}/topics/shop").json()["format"] == "combined"
    assert client.put(f"{API}/topics/shop", json=shop).status_code == 201
    assert client.put(f"{API}/topics/shop", json=shop).status_code == 200
    assert [topic["topic"]["format"] for topic in client.get(f"{API}/topics").json()] == ["json"]
    assert problems(client.put(f"{API}/topics/shop", json={"format": "xml"})) == ["/format"]
    assert problems(client.put(f"{API}/topics/_shop", json=shop)) == ["/name"]
    assert problems(client.get(f"{API}/topics/_shop")) == ["/name"]


def test_a_trial_on_given_lines(client: TestClient, login: Login) -> None:
    login.as_("user")
    client.put(f"{API}/tasks/hits", json={**HITS, "dimensions": [STATUS]})
    login.as_("viewer")
    lines = [line(status="404").decode(), "<script>alert(1)</script>\x00", "\ud800"]
    response = client.post(f"{API}/tasks/hits/test", content=json.dumps({"lines": lines}), headers=JSON)
    found, error = response.json()["lines"], response.json()["error"]
    assert error is None
    assert [(each["counted"], each["why"]) for each in found] == [
        (True, ""),
        (False, "dead letter: no event time"),
        (False, "dead letter: no event time"),
    ]
    assert found[0]["series"] == {"status": "404"}
    body = {"task": {**HITS, "dimensions": [STATUS]}, "lines": lines[:1]}
    assert client.post(f"{API}/test", json=body).json()["lines"] == found[:1]
    wrong = {**HITS, "period": "1y"}
    assert problems(client.post(f"{API}/test", json={"task": wrong, "lines": []})) == ["/task/period"]
    unknown = {**HITS, "dimensions": [{**STATUS, "filter": {"mode": "white", "set": "x"}}]}
    assert problems(client.post(f"{API}/test", json={"task": unknown, "lines": []})) == [
        "/task/dimensions/0/filter/set"
    ]
    assert problems(client.post(f"{API}/tasks/hits/test", json={"lines": ["x"] * 1001})) == ["/lines"]


def test_a_description_makes_no_version(client: TestClient, login: Login) -> None:
    login.as_("user")
    for text in ("Who asks", "Who asks for what"):
        made = client.put(f"{API}/tasks/hits", json={**HITS, "description": text}).json()
        assert (made["version"], made["task"]["description"]) == (1, text)
    wrong = client.put(f"{API}/tasks/hits", json={**HITS, "description": "a\nb"})
    assert problems(wrong) == ["/description"]


@pytest.mark.slow
def test_grouping_and_hot_keys_of_a_task(client: TestClient, login: Login, tmp_path: Path) -> None:
    from sluice.runtime.settings import Settings
    from sluice.speed.progress import SpeedProgress
    from sluice.stack import jobs
    from sluice.stack.progress import progress_file
    from sluice_airflow.api import stores

    settings = Settings(instance="test", home=tmp_path)
    read = {stores.progress: lambda: jobs.speed_layer(settings)}
    client.app.dependency_overrides.update(read)  # type: ignore[attr-defined]
    login.as_("user")
    asked = {"strategy": "planned", "half_life": 2.0}
    made = client.put(f"{API}/tasks/hits", json={**HITS, "grouping": asked}).json()
    assert made["task"]["grouping"] == asked
    again = client.put(f"{API}/tasks/hits", json={**HITS, "grouping": "auto"}).json()
    assert (again["version"], again["task"]["grouping"]) == (1, "auto")
    assert client.put(f"{API}/topics/logs", json={"grouping": "kg2"}).json()["grouping"] == "kg2"

    login.as_("viewer")
    for part in ("grouping", "hotkeys"):
        assert client.get(f"{API}/tasks/nothing/{part}").status_code == 404
        early = client.get(f"{API}/tasks/hits/{part}")
        assert (early.status_code, "has counted task 'hits' yet" in early.json()["detail"]) == (404, True)
    hot = {"key": ["<script>", "\u0000"], "share": 0.5, "error": 0.0, "workers": [1]}
    shown = document("hits", label=f"{made['id']}v1", hot=[hot])
    older = document("hits", label=f"{made['id']}v0")
    layer = SpeedProgress(progress_file(settings, jobs.SPEED_LAYER))
    layer.batch("logs", {}, grouping={"old": older, "new": shown})
    answer = client.get(f"{API}/tasks/hits/grouping")
    assert answer.headers["content-type"] == "application/json"
    assert (answer.json()["strategy"], answer.json()["decision"]["figures"]["tuples"]) == ("combine", 200_000)
    hidden = {**hot, "key": ["(hidden)", "(hidden)"]}
    assert answer.json()["hot"] == client.get(f"{API}/tasks/hits/hotkeys").json() == [hidden]
    login.as_("user")
    assert client.get(f"{API}/tasks/hits/hotkeys").json() == [hot]


def test_live_lines_are_for_those_who_may_write(
    client: TestClient, login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sluice_airflow.api import tasks

    monkeypatch.setattr(tasks, "sample", lambda settings, topic, count: [line()] * count)
    login.as_("user")
    client.put(f"{API}/tasks/hits", json=HITS)
    assert len(client.post(f"{API}/tasks/hits/test", json={"sample": 3}).json()["lines"]) == 3
    login.as_("viewer")
    assert client.post(f"{API}/tasks/hits/test", json={"sample": 3}).status_code == 403


@pytest.mark.slow
def test_the_openapi_document_knows_what_a_task_is(client: TestClient, login: Login) -> None:
    login.as_("viewer")
    document = client.get(f"{API}/openapi.json").json()
    assert document["info"]["version"] == version("sluice")
    assert f"{API}/tasks/{{name}}:pause" in document["paths"]
    schemas = document["components"]["schemas"]
    assert {"TaskSpec", "TopicSpec", "Extract", "Problems"} <= set(schemas)
    named = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(document)))
    assert named <= set(schemas)


@pytest.mark.slow
def test_airflow_finds_the_plugin_and_loads_no_api_with_it() -> None:
    import subprocess
    import sys
    from pathlib import Path

    code = (
        "import sys; sys.path.insert(0, 'plugins'); import sluice_plugin; "
        "app, = sluice_plugin.SluicePlugin.fastapi_apps; "
        "assert app['url_prefix'] == '/sluice'; assert 'sluice_airflow.api.app' not in sys.modules"
    )
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True, timeout=60)


@pytest.mark.slow
def test_trials_are_not_asked_for_too_often(
    client: TestClient, login: Login, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a slow machine, the first trials would count no more when the last ones are asked for."""
    from sluice_airflow.api import security

    often = security.PER_MINUTE
    monkeypatch.setattr(security, "RATE", Rate(often, clock=lambda: 0.0))
    login.as_("viewer", "hurried")
    asked = [client.post(f"{API}/diff", json=[HITS]).status_code for _ in range(often + 1)]
    assert asked == [200] * often + [429]
    login.as_("viewer", "another")
    assert client.post(f"{API}/diff", json=[HITS]).status_code == 200
