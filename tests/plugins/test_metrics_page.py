"""`/sluice/metrics` as a Prometheus server meets it: who may scrape, and what it costs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import FastAPI, HTTPException, Request
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from sluice.runtime import passwords
from sluice.runtime.settings import Settings
from sluice.runtime.throttle import Throttle
from sluice.stack.users import Users
from tests.monitoring.instance import running
from tests.plugins.application import Login

#: tests/runtime/test_passwords.py tests the hashes themselves.
pytestmark = pytest.mark.usefixtures("quick_passwords")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return running(tmp_path)


@pytest.fixture
def own_users(app: FastAPI, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    """The app with users of its own; a token is the name of its user."""
    from sluice_airflow import auth, log_in
    from sluice_airflow.api import basic, stores

    monkeypatch.setattr(basic, "get_settings", lambda: settings)
    monkeypatch.setattr(log_in, "get_settings", lambda: settings)
    monkeypatch.setattr(log_in, "throttle", Throttle())
    for part in (auth, basic):
        monkeypatch.setattr(part, "token_of", lambda user, seconds: user.name)
    app.dependency_overrides[stores.instance] = lambda: settings
    return app


@pytest.fixture
def client(own_users: FastAPI) -> TestClient:
    return TestClient(own_users)


@pytest.fixture
def logging_in(own_users: FastAPI, login: Login) -> Login:
    from airflow.api_fastapi.core_api.security import get_user

    own_users.dependency_overrides[get_user] = login.user
    return login


@pytest.fixture
def by_token(own_users: FastAPI, login: Login, settings: Settings) -> None:
    """Airflow's part of the login: the token's user has the present role."""
    from airflow.api_fastapi.core_api.security import get_user

    def user(request: Request) -> Any:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind != "Bearer" or token not in Users(settings).all():
            raise HTTPException(401, "Not authenticated")
        login.as_(Users(settings).all()[token].role, token)
        return login.user()

    own_users.dependency_overrides[get_user] = user


def test_nobody_and_a_stranger_see_nothing(client: TestClient, logging_in: Login) -> None:
    assert client.get("/metrics").status_code == 401
    logging_in.as_("stranger")
    assert client.get("/metrics").status_code == 403


def test_a_viewer_sees_what_prometheus_can_read(client: TestClient, logging_in: Login) -> None:
    logging_in.as_("viewer")
    found = client.get("/metrics")
    assert (found.status_code, found.headers["content-type"].split(";")[0]) == (200, "text/plain")
    names = {family.name for family in text_string_to_metric_families(found.text)}
    assert {"sluice_lines", "sluice_freshness_seconds", "sluice_daemon_healthy"} <= names


@pytest.mark.usefixtures("by_token")
def test_a_scraper_logs_in_with_a_password_that_is_checked_slowly_only_once(
    client: TestClient, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes: list[str] = []
    slow = passwords._hash
    monkeypatch.setattr(passwords, "_hash", lambda *given: hashes.append(given[0]) or slow(*given))
    password = Users(settings).add("prometheus", "viewer")
    hashes.clear()
    for _ in range(3):
        assert client.get("/metrics", auth=("prometheus", password)).status_code == 200
    assert hashes == [password]


@pytest.mark.usefixtures("by_token")
def test_a_wrong_password_shows_nothing_and_guessing_is_slowed_down(
    client: TestClient, settings: Settings
) -> None:
    password = Users(settings).add("prometheus", "viewer")
    assert client.get("/metrics", auth=("prometheus", password)).status_code == 200
    for name in ("prometheus", "nobody"):
        assert client.get("/metrics", auth=(name, "guess")).status_code == 401
    for _ in range(4):
        client.get("/metrics", auth=("prometheus", "guess"))
    refused = client.get("/metrics", auth=("prometheus", "guess"))
    assert (refused.status_code, "retry-after" in refused.headers) == (429, True)


@pytest.mark.usefixtures("by_token")
def test_a_changed_password_and_a_removed_user_end_the_scraping_at_once(
    client: TestClient, settings: Settings
) -> None:
    users = Users(settings)
    first = users.add("prometheus", "viewer")
    assert client.get("/metrics", auth=("prometheus", first)).status_code == 200
    second = users.set_password("prometheus")
    assert client.get("/metrics", auth=("prometheus", first)).status_code == 401
    assert client.get("/metrics", auth=("prometheus", second)).status_code == 200
    users.remove("prometheus")
    assert client.get("/metrics", auth=("prometheus", second)).status_code == 401


@pytest.mark.usefixtures("by_token")
@pytest.mark.parametrize("header", ["Basic", "Basic !", "Basic bm9jb2xvbg==", "Basic /w=="])
def test_a_header_that_is_no_password_is_refused(client: TestClient, header: str) -> None:
    assert client.get("/metrics", headers={"Authorization": header}).status_code == 401


@pytest.mark.usefixtures("by_token")
def test_a_password_opens_nothing_but_the_metrics(client: TestClient, settings: Settings) -> None:
    password = Users(settings).add("prometheus", "admin")
    for path in ("/api/v1/tasks", "/api/v1/tasks/metrics", "/api/v1/openapi.json"):
        assert client.get(path, auth=("prometheus", password)).status_code == 401


def test_the_platforms_own_user_does_not_scrape(client: TestClient, settings: Settings) -> None:
    own = settings.model_copy(update={"hive": SimpleNamespace(user="sluice")})
    secrets = settings.home / "secrets"
    secrets.mkdir(exist_ok=True)
    for name in ("sql", "airflow_admin"):
        (secrets / name).write_text("secret")
    Users(own).ensure_own(settings)
    assert client.get("/metrics", auth=("sluice", "secret")).status_code == 401
