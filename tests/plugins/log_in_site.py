"""Airflow's log-in behind the guard on a port of its own, and browsers that go there and to a provider."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from re import search
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from sluice.runtime.login_settings import Login
from sluice.runtime.sections import Airflow
from sluice.runtime.settings import Settings
from sluice.runtime.throttle import Queue, Rate, Throttle
from sluice.stack import secrets
from sluice.stack.networking import network, outward
from sluice_lab.waiting import until
from tests.plugins.served import served

ME = "/ui/auth/me"


class Site:
    """The address, and the settings, which a test may change."""

    def __init__(self) -> None:
        self.url = ""
        self.settings = Settings(instance="test")

    def at(self, home: Path, **login: Any) -> None:
        """Be an instance in that directory, whom nobody has asked yet."""
        from sluice_airflow import log_in
        from sluice_airflow.provider import oidc, routes

        self.settings = Settings(instance="test", home=home, network="host", airflow=Airflow(url=self.url))
        secrets.make(self.settings)
        log_in.throttle, log_in.queue, log_in.directory_queue = Throttle(), Queue(), Queue()
        routes.rate = Rate(routes.PER_MINUTE)
        oidc._found.clear()
        self.set(**login)

    def set(self, **login: Any) -> None:
        """Have these settings of `login`."""
        self.settings = self.settings.model_copy(update={"login": Login.model_validate(login)})

    @contextmanager
    def relayed(self) -> Iterator[None]:
        """Be in a network of its own, from which a relay alone leads to who is asked."""
        targets = self.settings.login.targets
        folder = network.folder(self.settings)
        folder.mkdir(mode=0o700)
        argv = [sys.executable, "-m", network.OUTWARD, folder, *(f"{host}:{port}" for host, port in targets)]
        self.settings = self.settings.model_copy(update={"network": "private"})
        with subprocess.Popen(argv) as relay:
            try:
                until(lambda: all(outward.socket_of(folder, each).exists() for each in targets))
                yield
            finally:
                relay.kill()


@contextmanager
def log_in_site(monkeypatch: pytest.MonkeyPatch, **login: Any) -> Iterator[Site]:
    """The site. login: the settings with which it starts, which decide on what it serves."""
    from airflow import settings as airflow_settings
    from airflow.api_fastapi import app as airflow
    from airflow.api_fastapi.core_api.app import init_middlewares
    from airflow.api_fastapi.core_api.routes.public.auth import auth_router as public
    from airflow.api_fastapi.core_api.routes.ui.auth import auth_router as ui
    from airflow.models.base import Base
    from airflow.models.log import Log
    from airflow.models.revoked_token import RevokedToken
    from fastapi import FastAPI

    from sluice.stack.airflow.configuration import AUTH_MANAGER
    from sluice_airflow import auth, caller, log_in
    from sluice_airflow.api import sql_password, stores
    from sluice_airflow.console import statements
    from sluice_airflow.front import guard
    from sluice_airflow.headers import SecurityHeaders
    from sluice_airflow.provider import routes

    Base.metadata.create_all(airflow_settings.get_engine(), tables=[Log.__table__, RevokedToken.__table__])
    site = Site()
    site.set(**login)
    monkeypatch.setenv("AIRFLOW__CORE__AUTH_MANAGER", AUTH_MANAGER)
    for module in (auth, caller, log_in, routes):
        monkeypatch.setattr(module, "get_settings", lambda: site.settings)
    monkeypatch.setattr(caller, "source_at", lambda settings, client, port: f"uid:{client[0]}")
    manager = auth.AuthManager()
    manager.init()
    monkeypatch.setattr(airflow._AuthManagerState, "instance", manager)
    app = FastAPI()
    app.state.auth_manager = manager
    app.include_router(ui, prefix="/ui")
    app.include_router(public, prefix="/api/v2")
    app.include_router(sql_password.router, prefix="/sluice/api/v1")
    app.include_router(statements.router, prefix="/sluice/console")
    app.dependency_overrides[stores.instance] = lambda: site.settings
    app.mount("/auth", manager.get_fastapi_app())
    init_middlewares(app)
    front = guard.Guard(app, lambda: site.url, lambda peer: f"uid:{peer[0]}" if peer else "")
    with served(SecurityHeaders(front)) as url:
        site.url = url
        yield site


class Browser:
    """A browser of one user of this machine, who has an address of 127.0.0.0/8."""

    def __init__(self, site: Site, address: str = "127.0.0.1") -> None:
        transport = httpx.HTTPTransport(local_address=address)
        self.site = site
        self.http = httpx.Client(transport=transport, base_url=site.url, trust_env=False, timeout=30)

    def get(self, url: str, site: str = "same-origin") -> httpx.Response:
        """Show that page. site: whose page leads there, as browsers say it."""
        headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        return self.http.get(url, headers={**headers, "Accept": "text/html"})

    def begin(self, following: str = "/") -> str:
        """Press the button; returns where that leads."""
        page = self.http.get("/auth/login", params={"next": following}).text
        found = search(r'id="provider".*?href="\.([^"]*)"', page)
        assert found, page
        answer = self.get(unescape(found[1]))
        assert answer.status_code == 303, answer.text
        return str(answer.headers["location"])

    def sign_in(self, there: str, sub: str) -> str:
        """Log in at the provider; returns where that leads."""
        answer = httpx.post(there, data={"sub": sub}, trust_env=False)
        assert answer.status_code == 302, answer.text
        return str(answer.headers["location"])

    def come_back(self, there: str) -> httpx.Response:
        return self.get(there, "cross-site")

    def log_in(self, sub: str, following: str = "/") -> httpx.Response:
        return self.come_back(self.sign_in(self.begin(following), sub))

    def me(self) -> str:
        """Who is logged in; nothing if nobody is."""
        answer = self.http.get(ME, headers={"Sec-Fetch-Site": "same-origin"})
        return str(answer.json()["username"]) if answer.status_code == 200 else ""


def fields(url: str) -> dict[str, str]:
    return {name: value for name, (value, *_) in parse_qs(urlsplit(url).query).items()}
