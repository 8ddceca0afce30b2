"""Who sends the requests of the matrix: strangers, people of each role, and pages of other sites."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import get_args

import httpx

from sluice.runtime.settings import Settings
from sluice.stack.users import Role, Users
from tests.security.attacker.airflow import forged

ROLES: tuple[Role, ...] = get_args(Role)  # least first
#: How a browser marks what a page of another site, or of another port of this host, sends by itself.
ELSEWHERE = {"Origin": "http://elsewhere.example", "Sec-Fetch-Site": "cross-site"}
ANOTHER_PORT = {"Origin": "http://127.0.0.1:29999", "Sec-Fetch-Site": "same-site"}
BY_SCRIPT = {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "empty"}


@dataclass(frozen=True)
class Caller:
    """How one caller's requests look.

    `login`: returns the headers that show who it is; asked again after one of its tokens was ended.
    `role`: what it may do; None where it may do nothing. `page`: it is a page in somebody else's browser.
    """

    name: str
    login: Callable[[], Mapping[str, str]] = dict
    role: Role | None = None
    page: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def callers(settings: Settings) -> Iterator[list[Caller]]:
    """All callers; the users among them are removed at the end."""
    users = Users(settings)
    with ExitStack() as made, httpx.Client(base_url=settings.airflow.url, trust_env=False) as http:

        def person(role: Role) -> Callable[[], str]:
            name = f"{role}-{uuid.uuid4().hex[:8]}"
            password = users.add(name, role)
            made.callback(users.remove, name)
            return lambda: token(http, name, password)

        people = {role: person(role) for role in ROLES}
        ended = person("admin")()
        http.get("/auth/logout", headers=_bearer(ended))
        http.get("/api/v2/auth/logout", headers=_bearer(ended))
        unsigned = forged(settings.airflow.user)[0][1]
        yield [
            Caller("nobody"),
            Caller("forged token", lambda: _bearer(unsigned)),
            Caller("ended token", lambda: _bearer(ended)),
            *(Caller(role, lambda of=mint: _bearer(of()), role) for role, mint in people.items()),
            Caller("page elsewhere", lambda: _cookie(people["admin"]()), page={**ELSEWHERE, **BY_SCRIPT}),
            Caller(
                "page on another port", lambda: _cookie(people["admin"]()), page={**ANOTHER_PORT, **BY_SCRIPT}
            ),
        ]


def token(http: httpx.Client, name: str, password: str) -> str:
    answer = http.post("/auth/token", json={"username": name, "password": password}, timeout=60)
    answer.raise_for_status()
    return str(answer.json()["access_token"])


def _bearer(value: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {value}"}


def _cookie(value: str) -> dict[str, str]:
    return {"Cookie": f"_token={value}"}
