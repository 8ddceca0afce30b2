"""Log-ins and their tokens, at Airflow's own routes: who gets in, for how long, and who does not."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from sluice.runtime.settings import Settings, make_secret
from sluice.runtime.throttle import Queue, Throttle
from sluice.stack import secrets
from sluice.stack.airflow import platform_user
from sluice.stack.users import Users
from tests.loops import run

#: tests/runtime/test_passwords.py tests the hashes themselves.
pytestmark = [pytest.mark.usefixtures("quick_passwords"), pytest.mark.slow]

ENDED = 401
ME = "/ui/auth/me"


@pytest.fixture(scope="module", autouse=True)
def airflow_tables() -> None:
    """The tables of Airflow that these routes use."""
    from airflow import settings as airflow
    from airflow.models.base import Base
    from airflow.models.log import Log
    from airflow.models.revoked_token import RevokedToken

    Base.metadata.create_all(airflow.get_engine(), tables=[Log.__table__, RevokedToken.__table__])


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    from sluice_airflow import auth, caller, log_in

    made = Settings(instance="test", home=tmp_path)
    secrets.make(made)
    for module in (auth, caller, log_in):
        monkeypatch.setattr(module, "get_settings", lambda: made)
    monkeypatch.setattr(caller, "source_at", lambda settings, client, port: client[0])
    monkeypatch.setattr(log_in, "throttle", Throttle())
    monkeypatch.setattr(log_in, "queue", Queue())
    return made


@pytest.fixture
def app(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    """Airflow's routes for log-ins, with its own middlewares and Sluice's users."""
    from airflow.api_fastapi import app as airflow
    from airflow.api_fastapi.auth.managers.simple.routes.login import login_router
    from airflow.api_fastapi.core_api.app import init_middlewares
    from airflow.api_fastapi.core_api.routes.public.auth import auth_router as public
    from airflow.api_fastapi.core_api.routes.ui.auth import auth_router as ui

    from sluice_airflow.auth import AuthManager

    manager = AuthManager()
    manager.init()
    monkeypatch.setattr(airflow._AuthManagerState, "instance", manager)
    made = FastAPI()
    made.state.auth_manager = manager
    made.include_router(ui, prefix="/ui")
    made.include_router(public, prefix="/api/v2")
    made.include_router(login_router, prefix="/auth")
    init_middlewares(made)
    return made


def client_at(app: FastAPI, address: str) -> TestClient:
    return TestClient(app, client=(address, 50000), base_url="http://127.0.0.1:23080", follow_redirects=False)


@pytest.fixture
def http(app: FastAPI) -> TestClient:
    return client_at(app, "127.1.1.1")


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def log_in(http: TestClient, name: str, password: str, where: str = "/auth/token") -> Any:
    return http.post(where, json={"username": name, "password": password})


def token_of(http: TestClient, name: str, password: str) -> str:
    answer = log_in(http, name, password)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["access_token"])


def minted(http: TestClient, token: str) -> httpx.Response:
    return http.post("/ui/auth/token", json={"token_type": "cli"}, headers=bearer(token))


def status(http: TestClient, token: str) -> int:
    http.cookies.clear()
    by_header = http.get(ME, headers=bearer(token)).status_code
    by_cookie = http.get(ME, headers={"Cookie": f"_token={token}"}).status_code
    assert by_header == by_cookie
    return by_header


class Later:
    """The clock of the auth manager, which a test sets forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def time(self) -> float:
        return time.time() + self.ahead


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Later:
    from sluice_airflow import auth

    later = Later()
    monkeypatch.setattr(auth, "time", later)
    return later


def test_a_log_in_lasts_eight_hours_whatever_is_made_from_it(
    http: TestClient, settings: Settings, clock: Later
) -> None:
    from sluice_airflow.auth import SECONDS

    first = token_of(http, "ann", Users(settings).add("ann", "viewer"))
    begin = jwt.decode(first, options={"verify_signature": False})["exp"]
    clock.ahead = SECONDS / 2
    second = minted(http, first).json()["access_token"]
    claims = jwt.decode(second, options={"verify_signature": False})
    assert claims["exp"] <= begin + 1 - SECONDS / 2  # real time stands still: half of it is left
    third = minted(http, second).json()["access_token"]
    assert status(http, third) == 200
    clock.ahead = SECONDS + 2
    for token in (first, second, third):
        assert status(http, token) == ENDED
        assert minted(http, token).status_code == ENDED


@pytest.mark.parametrize("which", ["first", "minted"])
@pytest.mark.parametrize("how", ["header", "cookie"])
def test_log_out_ends_every_token_of_the_log_in_and_no_other(
    http: TestClient, settings: Settings, which: str, how: str
) -> None:
    password = Users(settings).add("ann", "viewer")
    first, other = token_of(http, "ann", password), token_of(http, "ann", password)
    second = minted(http, first).json()["access_token"]
    token = {"first": first, "minted": second}[which]
    http.cookies.clear()
    headers = bearer(token) if how == "header" else {"Cookie": f"_token={token}"}
    assert http.get("/api/v2/auth/logout", headers=headers).status_code == 307
    assert [status(http, each) for each in (first, second)] == [ENDED] * 2
    assert minted(http, second).status_code == ENDED
    assert status(http, other) == 200


@pytest.mark.parametrize("change", ["password", "role", "removed", "again"])
def test_a_change_of_the_user_ends_the_tokens_and_a_name_inherits_nothing(
    http: TestClient, settings: Settings, change: str
) -> None:
    users = Users(settings)
    first = token_of(http, "ann", users.add("ann", "viewer"))
    second = minted(http, first).json()["access_token"]
    if change == "password":
        users.set_password("ann")
    elif change == "role":
        users.set_role("ann", "admin")
    else:
        users.remove("ann")
        if change == "again":
            users.add("ann", "admin")
    for token in (first, second):
        assert status(http, token) == ENDED
        assert minted(http, token).status_code == ENDED


def test_a_stream_of_events_ends_with_the_log_in(http: TestClient, settings: Settings) -> None:
    from starlette.requests import Request

    from sluice_airflow.api.security import session_lasts

    token = token_of(http, "ann", Users(settings).add("ann", "viewer"))
    headers = [(b"authorization", f"Bearer {token}".encode())]
    request = Request({"type": "http", "headers": headers})
    assert run(session_lasts(request))
    http.get("/api/v2/auth/logout", headers=bearer(token))
    assert not run(session_lasts(request))


def test_the_same_role_again_ends_nothing(http: TestClient, settings: Settings) -> None:
    token = token_of(http, "ann", Users(settings).add("ann", "viewer"))
    Users(settings).set_role("ann", "viewer")
    assert status(http, token) == 200


def test_tokens_of_before_there_were_generations_are_over(http: TestClient, settings: Settings) -> None:
    from sluice_airflow.auth import AuthManager

    Users(settings).add("ann", "viewer")
    old = AuthManager._get_token_signer().generate({"sub": "ann", "role": "viewer", "teams": []})
    assert status(http, old) == ENDED


def test_the_platform_acts_as_itself_and_for_a_person_and_its_token_makes_no_other(
    http: TestClient, settings: Settings
) -> None:
    for for_user, name in (("", "sluice"), ("ann", "ann"), ("host:ann", "host:ann")):
        token = platform_user.sign(settings, for_user)
        assert http.get(ME, headers=bearer(token)).json()["username"] == name
        assert minted(http, token).status_code == 403
        assert http.get(ME, headers={"Cookie": f"_token={token}"}).cookies == {}


def test_nobody_else_signs_as_the_platform(
    http: TestClient, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Settings(instance="test", home=tmp_path / "other")
    make_secret(other.home, platform_user.SECRET)
    assert status(http, platform_user.sign(other)) in (401, 403)
    now = int(time.time())
    claims = {"sub": "sluice", "aud": platform_user.AUDIENCE, "iat": now, "nbf": now, "exp": now + 60}
    for key, algorithm in (("", "none"), (b"x" * 64, "HS512")):
        forged = jwt.encode(claims, key, algorithm=algorithm, headers={"kid": "sluice-platform"})
        assert status(http, forged) in (401, 403)
    monkeypatch.setattr(platform_user, "SECONDS", -60)
    assert status(http, platform_user.sign(settings)) == ENDED


def test_nobody_logs_in_as_the_platform(http: TestClient, settings: Settings) -> None:
    from sluice.runtime.settings import read_secret

    for secret in ("sql", platform_user.SECRET, "airflow_admin"):
        assert log_in(http, "sluice", read_secret(settings.home, secret)).status_code == 401


def test_the_platform_has_the_rights_that_it_needs(settings: Settings) -> None:
    from sluice_airflow.auth import AuthManager, PlatformUser

    manager, platform = AuthManager(), PlatformUser("")
    for method in ("GET", "POST", "PUT"):
        assert manager.is_authorized_dag(method=method, user=platform)
        assert manager.is_authorized_connection(method=method, user=platform)
    assert not manager.is_authorized_dag(method="DELETE", user=platform)
    for method in ("GET", "POST", "PUT", "DELETE"):
        assert not manager.is_authorized_variable(method=method, user=platform)
    assert not manager.is_authorized_pool(method="PUT", user=platform)
    assert not manager.is_authorized_configuration(method="PUT", user=platform)


@pytest.mark.parametrize("where", ["/auth/token", "/auth/token/cli"])
def test_a_stranger_slows_himself_and_keeps_nobody_out(app: FastAPI, settings: Settings, where: str) -> None:
    password = Users(settings).add("ann", "viewer")
    stranger, ann = client_at(app, "127.1.1.1"), client_at(app, "127.1.1.2")
    for name in ("ann", "admin"):
        said = [log_in(stranger, name, "guess", where) for _ in range(7)]
        assert [each.status_code for each in said] == [401] * 5 + [429] * 2
        assert 0 < int(said[-1].headers["Retry-After"]) <= 60
    assert log_in(stranger, "ann", password, where).status_code == 429
    assert log_in(ann, "ann", password, where).status_code == 201
    assert httpx_status(app, settings) == 200


def httpx_status(app: FastAPI, settings: Settings) -> int:
    """Whether the platform is let in."""
    return client_at(app, "127.0.0.1").get(ME, headers=bearer(platform_user.sign(settings))).status_code


def test_many_guesses_at_once_are_no_more_than_five(
    app: FastAPI, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sluice.runtime import passwords

    quick = passwords._hash
    monkeypatch.setattr(passwords, "_hash", lambda *given: (time.sleep(0.05), quick(*given))[1])
    password = Users(settings).add("ann", "viewer")
    clients = [client_at(app, "127.1.1.1") for _ in range(14)]
    with ThreadPoolExecutor(14) as pool:
        said = list(pool.map(lambda http: log_in(http, "ann", "guess").status_code, clients))
    assert sorted(set(said)) == [401, 429]
    assert said.count(401) <= 5
    with ThreadPoolExecutor(4) as pool:  # who is right is not slowed down
        there = [client_at(app, "127.1.1.2") for _ in range(6)]
        right = list(pool.map(lambda http: log_in(http, "ann", password).status_code, there))
    assert right == [201] * 6


def test_a_stranger_s_many_names_are_limited_together(app: FastAPI, settings: Settings) -> None:
    stranger = client_at(app, "127.1.1.1")
    said = [log_in(stranger, f"nobody{number}", "guess").status_code for number in range(25)]
    assert said == [401] * 20 + [429] * 5


def test_many_sources_slow_a_name_down_but_not_where_it_logged_in_before(
    app: FastAPI, settings: Settings
) -> None:
    password = Users(settings).add("ann", "viewer")
    home, away = client_at(app, "127.1.1.1"), client_at(app, "127.1.1.2")
    assert log_in(home, "ann", password).status_code == 201
    for number in range(25):
        log_in(client_at(app, f"127.2.1.{number}"), "ann", "guess")
    assert log_in(home, "ann", password).status_code == 201
    refused = log_in(away, "ann", password)
    assert refused.status_code == 429
    assert 0 < int(refused.headers["Retry-After"]) <= 6


def test_odd_passwords_and_names_are_wrong_and_no_more(http: TestClient) -> None:
    body = b'{"username": "admin", "password": "\\ud800"}'
    answer = http.post("/auth/token", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (401, 422)
    assert log_in(http, "A" * 100_000, "x").status_code == 401
