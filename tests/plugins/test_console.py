"""The console's pages as a browser gets them; the login and the stores are doubles."""

from __future__ import annotations

import re
from importlib.metadata import version
from typing import Any

import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from fastapi.testclient import TestClient

from sluice.storage.tables import schema
from sluice.tasks.store import TaskStore
from tests.engine.samples import spec
from tests.plugins.application import Login
from tests.results.questions import FIRST, stored, task
from tests.results.stored import Stored
from tests.results.test_reader import ALL_METRICS

CONSOLE = "/console"
OWN = {"origin": "http://127.0.0.1:21080"}
HOSTILE = "<script>alert(1)</script>\"'&"


def addresses(app: FastAPI) -> list[tuple[str, str]]:
    """Every method and address of the console, with something in place of each parameter."""
    found = []
    for route in app.routes:
        path = getattr(route, "path", "")
        if path.startswith(CONSOLE):
            filled = re.sub(r"\{\w+(:path)?\}", "x", path)
            found += [(method, filled) for method in sorted(route.methods - {"HEAD"})]  # type: ignore[attr-defined]
    return found


def alert(database: sa.Engine, name: str, message: str) -> None:
    with database.begin() as connection:
        connection.execute(sa.insert(schema.alerts).values(source="watch", name=name, message=message))


@pytest.fixture
def layers(client: TestClient) -> Stored:
    from sluice_airflow.api import stores

    own = stored(task(ALL_METRICS), [(hour, hour % 3, hour % 5, hour % 7) for hour in range(60)])
    client.app.dependency_overrides[stores.layers] = lambda: own  # type: ignore[attr-defined]
    return own


@pytest.mark.slow
def test_every_address_asks_for_a_login_and_for_the_right_to_read(
    app: FastAPI, client: TestClient, login: Login
) -> None:
    asked = addresses(app)
    assert ("GET", "/console/") in asked
    for method, path in asked:
        login.name = None
        assert client.request(method, path).status_code == 401, path
        login.as_("stranger")
        assert client.request(method, path).status_code == 403, path


def test_a_page_without_a_login_leads_to_the_log_in_and_back(client: TestClient) -> None:
    answer = client.get("/console/?a=b")
    assert answer.status_code == 401
    assert answer.headers["content-type"].startswith("text/html")
    assert 'href="/api/v2/auth/login?next=%2Fconsole%2F%3Fa%3Db"' in answer.text


def test_the_footer_names_the_version_to_whoever_has_logged_in(client: TestClient, login: Login) -> None:
    named = f" · Sluice {version('sluice')}"
    assert named not in client.get("/console/").text
    login.as_("viewer")
    footer = client.get("/console/").text.partition("<footer>")[2]
    assert footer.partition("</p>")[0].endswith(f"ann, who may read{named}")


def test_pages_take_no_inline_script_or_style_and_only_this_servers_frames(
    client: TestClient, login: Login
) -> None:
    login.as_("viewer")
    answer = client.get("/console/")
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["frame-ancestors"] == "'self'"
    assert answer.headers["cache-control"] == "no-store"
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", answer.text)


def test_what_a_page_loads_is_there_and_may_be_kept_for_ever(client: TestClient, login: Login) -> None:
    login.as_("viewer")
    files = re.findall(r'(?:href|src)="(/console/static/[^"]+)"', client.get("/console/").text)
    assert len(files) >= 4
    for file in files:
        answer = client.get(file)
        assert answer.status_code == 200, file
        assert "immutable" in answer.headers["cache-control"]
    old = re.sub(r"static/\w+", "static/0", files[0])
    assert client.get(old).headers["cache-control"] == "no-store"
    assert client.get("/console/static/0/../../api").status_code == 404


def test_scripts_import_only_what_is_served(client: TestClient, login: Login) -> None:
    from sluice_airflow.console.assets import STATIC, assets

    named = set()
    for script in STATIC.glob("*.js"):
        named |= set(re.findall(r'(?:from|import) "\./([^"]+)"', script.read_text()))
    assert named <= set(assets().files)


def test_the_first_page_says_what_is_wrong_and_what_is_counted(
    client: TestClient, login: Login, database: sa.Engine
) -> None:
    login.as_("viewer")
    empty = client.get("/console/").text
    assert "No known problems" in empty
    assert "Nothing is counted yet" in empty
    tasks = TaskStore(database)
    tasks.apply([spec(name="hits"), spec(name="sizes")], "ann")
    tasks.set_aside(tasks.get("sizes").task_id, 1, "no such field")
    alert(database, "daemon kafka", "Kafka does not answer")
    text = client.get("/console/").text
    assert "Kafka does not answer" in text
    assert "The task sizes failed:" in text
    assert 'href="/console/charts?task=hits"' in text


def test_hostile_texts_are_shown_and_not_run(client: TestClient, login: Login, database: sa.Engine) -> None:
    login.as_("viewer", name=HOSTILE)
    alert(database, HOSTILE, HOSTILE)
    text = client.get("/console/").text
    assert "<script>alert" not in text
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;&amp;") == 3


@pytest.mark.slow
def test_the_newest_number_is_the_total_of_the_last_period(
    client: TestClient, login: Login, layers: Stored
) -> None:
    login.as_("viewer")
    text = client.get("/console/parts/newest", params={"task": "sample"}).text
    assert re.search(r'class="figure">1 <span class="unit">count', text)
    assert 'datetime="2015-05-19T11:00:00Z"' in text
    assert max(layers.rows["period_start"].to_pylist()) == FIRST + 59 * 3_600_000
    assert len(re.findall(r"[\d.]+,[\d.]+", re.search(r'points="([^"]+)"', text)[1])) == 24  # type: ignore[index]


def test_a_task_without_results_says_when_they_come(client: TestClient, login: Login) -> None:
    from sluice_airflow.api import stores

    own = stored(task(ALL_METRICS), [])
    client.app.dependency_overrides[stores.layers] = lambda: own  # type: ignore[attr-defined]
    login.as_("viewer")
    assert "No results yet" in client.get("/console/parts/newest", params={"task": "sample"}).text


def test_an_address_that_does_not_exist_is_a_page_that_leads_back(client: TestClient, login: Login) -> None:
    login.as_("viewer")
    answer = client.get("/console/nowhere")
    assert answer.status_code == 404
    assert 'href="/console/"' in answer.text


def test_the_api_answers_as_before_and_its_document_has_no_pages(client: TestClient, login: Login) -> None:
    login.as_("viewer")
    document: dict[str, Any] = client.get("/api/v1/openapi.json").json()
    assert not [path for path in document["paths"] if "console" in path]


def test_a_form_that_was_sent_without_a_login_can_be_sent_again(client: TestClient) -> None:
    answer = client.post("/console/statistics/review", data={"name": "x"}, headers=OWN)
    assert answer.status_code == 401
    assert "You are logged out, so nothing was saved" in answer.text
    assert "auth/login" not in answer.text  # it would lead to a page that takes no GET
    assert 'href="/console/" target="_blank"' in answer.text


def test_a_part_says_what_it_cost(client: TestClient, login: Login, layers: Stored) -> None:
    login.as_("viewer")
    answer = client.get("/console/parts/newest", params={"task": "sample"})
    assert re.fullmatch(r"cpu;dur=\d+\.\d", answer.headers["server-timing"])
