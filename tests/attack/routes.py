"""Every route, by every method, by every caller."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import httpx

from sluice.runtime.settings import Settings
from tests.attack.callers import Caller, callers
from tests.attack.outcome import Outcome
from tests.security.attacker.airflow import PUBLIC
from tests.security.routes import all_routes

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "NONSENSE")
SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
NUMBER, NAME = re.compile(r"\{(try_number|asset_id|number|id)\}"), re.compile(r"\{[^}]*\}")
THREADS = 4
SECONDS = 60.0
#: What strangers may ask: a log-in, and what tells nothing (docs/security.md lists the same).
OPEN = PUBLIC | {"/auth/token", "/auth/token/cli", "/auth/login", "/api/v2/auth/login", "/api/v2/auth/logout"}
REFUSED = frozenset({401, 403})
#: Requests that end the caller's session.
ENDING = re.compile(r"logout")


def run(settings: Settings) -> Outcome:
    """Ask for something that does not exist at each route, with an empty body."""
    outcome = Outcome("routes x methods x callers")
    paths = sorted({path for _, path in all_routes()})
    with callers(settings) as each, httpx.Client(base_url=settings.airflow.url, trust_env=False) as http:
        shell = http.get("/").content
        for caller in each:
            _all(http, caller, paths, shell, outcome)
    return outcome


def _all(http: httpx.Client, caller: Caller, paths: list[str], shell: bytes, outcome: Outcome) -> None:
    login, lock = {**caller.login(), **caller.page}, threading.Lock()

    def one(what: tuple[str, str]) -> None:
        method, path = what
        status, content = send(http, method, path, login)
        with lock:
            outcome.add(caller.name, _kind(status), judge(caller, method, path, status, content == shell))

    wanted = [(method, path) for path in paths for method in METHODS if not ENDING.search(path)]
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(one, wanted))


def send(http: httpx.Client, method: str, path: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
    """Status and the beginning of the body; events have no end."""
    place = NAME.sub("no-such-thing", NUMBER.sub("-1", path))
    body = {} if method in WITH_BODY else None
    with http.stream(method, place, json=body, headers=headers, timeout=SECONDS) as answer:
        content = b"" if "event-stream" in answer.headers.get("content-type", "") else answer.read()
        return answer.status_code, content


def judge(caller: Caller, method: str, path: str, status: int, shell: bool) -> str:
    """What is wrong with this answer to this caller; empty if nothing is. `shell`: it is the pages' frame."""
    said = f"{caller.name}: {method} {path}: {status}"
    if status >= 500 and status != 501:
        return f"{said}: no request may break the server"
    done = 200 <= status < 300
    if caller.page:
        return f"{said}: another site's page may do nothing" if done and not _open(path, shell) else ""
    if caller.role is None:
        return f"{said}: only who is logged in may" if done and not _open(path, shell) else ""
    if caller.role == "viewer" and done and method not in SAFE and path not in _FOR_VIEWERS:
        return f"{said}: a viewer changes nothing"
    return ""


def _open(path: str, shell: bool) -> bool:
    return shell or path in OPEN


#: What viewers change: what is their own, and what only computes. A token of their own ends with their login.
_FOR_VIEWERS = frozenset(
    {
        "/api/v2/dags/{dag_id}/favorite",
        "/api/v2/dags/{dag_id}/unfavorite",
        "/sluice/api/v1/diff",
        "/sluice/api/v1/test",
        "/sluice/console/dashboards",
        "/ui/auth/token",
    }
)


def _kind(status: int) -> str:
    return str(status)
