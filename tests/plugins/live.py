"""The running instance's API as programs meet it, with logins that are real."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from sluice.runtime.settings import Settings
from sluice.stack.users import Role, Users
from sluice.storage.postgres import engine
from sluice.tasks.store import TaskStore
from tests.browser.people import admin

API = "/sluice/api/v1"
BODY = {
    "topic": "api-live",
    "period": "1m",
    "dimensions": [{"name": "status", "extract": {"delimiter": " ", "index": 8}}],
    "metrics": ["count"],
}


@pytest.fixture(scope="module")
def token(stack: Settings) -> str:
    user, password = admin(stack)
    login = {"username": user, "password": password}
    return str(httpx.post(f"{stack.airflow.url}/auth/token", json=login, timeout=120).json()["access_token"])


@pytest.fixture
def http(stack: Settings) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=stack.airflow.url, timeout=120, trust_env=False) as client:
        yield client


@pytest.fixture
def name(stack: Settings) -> Iterator[str]:
    unique = f"t{uuid.uuid4().hex[:12]}"
    yield unique
    store = TaskStore(engine(stack))
    if any(task.name == unique for task in store.list()):
        store.delete(unique, "test")


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@contextmanager
def logged_in(stack: Settings, http: httpx.Client, role: Role) -> Iterator[dict[str, str]]:
    """The header of a new user with this role, who is removed afterwards."""
    users, user = Users(stack), f"{role}-{uuid.uuid4().hex[:8]}"
    login = {"username": user, "password": users.add(user, role)}
    try:
        yield bearer(http.post("/auth/token", json=login).json()["access_token"])
    finally:
        users.remove(user)
