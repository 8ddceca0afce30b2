"""The application that the plugins add to Airflow, with a login that is a double (a real one: live.py)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from fastapi.testclient import TestClient

from tests.tasks.database import sqlite

API = "/api/v1"


class Login:
    """A double of Airflow's auth manager: the logged-in user (at first nobody), in one role."""

    roles = {"viewer": {"GET"}, "user": {"GET", "PUT"}, "op": {"GET", "PUT", "OP"}, "stranger": set()}  # noqa: RUF012

    def __init__(self) -> None:
        self.name: str | None = None
        self.role = "stranger"

    def as_(self, role: str, name: str = "ann") -> None:
        self.name, self.role = name, role

    def get_name(self) -> str:
        return str(self.name)

    def is_authorized_dag(self, *, method: str, user: Login) -> bool:
        return method in self.roles[user.role]

    def is_authorized_connection(self, *, method: str, user: Login) -> bool:
        return "OP" in self.roles[user.role]

    def user(self) -> Login:
        from fastapi import HTTPException

        if self.name is None:
            raise HTTPException(401, "Not authenticated")
        return self


@pytest.fixture
def login(monkeypatch: pytest.MonkeyPatch) -> Login:
    from sluice_airflow.api import security

    double = Login()
    monkeypatch.setattr(security, "get_auth_manager", lambda: double)
    return double


@pytest.fixture
def database() -> sa.Engine:
    return sqlite()


@cache
def made() -> FastAPI:
    """The app, which takes a third of a second to make, so all tests of a process have the same one."""
    from sluice_airflow.api import app as module

    return module.make_app()


@pytest.fixture
def app() -> Iterator[FastAPI]:
    """The app, without what other tests have put in."""
    yield made()
    made().dependency_overrides.clear()


def client_of(app: FastAPI, login: Login, database: sa.Engine) -> TestClient:
    from airflow.api_fastapi.core_api.security import get_user

    from sluice_airflow.api import stores

    app.dependency_overrides = {get_user: login.user, stores.database: lambda: database}
    return TestClient(app, base_url="http://127.0.0.1:21080")


@pytest.fixture
def client(app: FastAPI, login: Login, database: sa.Engine) -> TestClient:
    return client_of(app, login, database)
