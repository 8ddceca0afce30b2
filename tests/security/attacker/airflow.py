"""Airflow's server: every page and every route without a login, and with forged ones."""

from __future__ import annotations

import base64
import hmac
import http.client
import json
import re
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

from .report import Outcome, Report
from .target import Target
from .wire import request, verdict

DOOR = "airflow"
THREADS = 6
JSON = {"Content-Type": "application/json"}
PARAMETER = re.compile(r"\{[^}]*\}")
#: Pages beside the routes that are given, and some that must not be there.
PAGES = ("/", "/login", "/admin", "/docs", "/redoc", "/openapi.json", "/docs/oauth2-redirect", "/health")
PAGES += (
    "/auth/login",
    "/auth/docs",
    "/auth/openapi.json",
    "/auth/redoc",
    "/auth/token",
    "/auth/token/login",
)
PAGES += ("/execution/docs", "/execution/redoc", "/execution/openapi.json", "/execution/health")
PAGES += (
    "/sluice/openapi.json",
    "/sluice/docs",
    "/sluice/api/v1/openapi.json",
    "/static/",
    "/static/index.html",
)
PAGES += ("/api/v2/config", "/api/v1/dags", "/pluginsv2/", "/ui/config", "/metrics", "/log/x", "/_/")
OUTSIDE = (
    "/static/../../../../../../../../../../etc/passwd",
    "/static/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "/static/..%2f..%2f..%2f..%2f..%2f..%2f..%2f..%2f..%2fetc%2fpasswd",
    "/auth/static/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
    "/static//etc/passwd",
    "/static/%00",
)
#: What everybody may read: it tells nothing that is in the instance. docs/security.md lists the same.
PUBLIC = {"/auth/login", "/api/v2/version", "/api/v2/monitor/health"}
PUBLIC |= {"/execution/health", "/execution/health/ping"}
SAYS_NO = frozenset({401, 403, 429})
FORGED_AT = ("/api/v2/dags", "/api/v2/connections", "/sluice/api/v1/tasks", "/ui/config", "/api/v2/variables")
FORGED_AT += ("/execution/variables/x",)
AUDIENCES = ["apache-airflow", "urn:airflow.apache.org:task"]
KEYS = ("", "secret", "airflow", "temporary_key", "\0" * 32)
FRAME = "the same as /"
WRONG_PASSWORDS = ("", "admin")  # five wrong ones would lock the name


def airflow(target: Target, report: Report) -> None:
    """Everything but what is public must be refused."""
    port = target.ports["airflow"]
    try:
        shell = request(port, "GET", "/")[2]
    except (OSError, http.client.HTTPException) as error:
        report.add(DOOR, "GET /", Outcome.UNREACHABLE, error)
        return
    known = set(target.routes)
    routes = sorted({("GET", page) for page in PAGES} | known)
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda each: _visit(report, port, *each, exists=each in known, shell=shell), routes))
        list(pool.map(lambda path: _outside(report, port, path), OUTSIDE))
        list(pool.map(lambda login: _log_in(report, port, *login), _logins(target)))
        tokens = [(token, how, at) for how, token in forged(target.user) for at in FORGED_AT]
        list(pool.map(lambda each: forge(report, port, *each), tokens))


def _visit(report: Report, port: int, method: str, path: str, *, exists: bool, shell: bytes) -> None:
    """Request a route without a login.

    A route that exists must ask for one before anything else, even before it says that something is wrong
    with the request or does not exist. An answer equal to that of `/` is the frame into which the pages are
    loaded after the login. `path` may have parameters in braces.
    """
    what = f"{method} {path}"
    place = quote(PARAMETER.sub("x", path), safe="/%:?=&")
    body = b"{}" if method in ("POST", "PUT", "PATCH") else None
    try:
        status, headers, content = request(port, method, place, body, JSON if body else None)
    except (OSError, http.client.HTTPException) as error:
        report.add(DOOR, what, Outcome.REFUSED, repr(error))
        return
    outcome = verdict(method, status)
    public = outcome is Outcome.READ and (path in PUBLIC or content == shell)
    looked = outcome is Outcome.REFUSED and exists and status not in SAYS_NO
    outcome = Outcome.ANSWERED if public or looked else outcome
    said = FRAME if content == shell else content[:120]
    report.add(DOOR, what, outcome, f"{status} {headers.get('location', '')} {said!r}")


def _outside(report: Report, port: int, path: str) -> None:
    """Read a file outside the folder of static files."""
    try:
        status, _, content = request(port, "GET", path)
    except (OSError, http.client.HTTPException) as error:
        report.add(DOOR, f"GET {path}", Outcome.REFUSED, repr(error))
        return
    outcome = Outcome.READ if b"root:" in content else Outcome.REFUSED
    report.add(DOOR, f"GET {path}", outcome, f"{status}, {len(content)} bytes")


def _logins(target: Target) -> list[tuple[str, object]]:
    named = [(name, word) for name in ("admin", target.user) for word in WRONG_PASSWORDS]
    return [*named, ("admin' OR '1'='1", "x"), ("admin", None), ("airflow", "airflow"), ("", "")]


def _log_in(report: Report, port: int, name: str, password: object) -> None:
    body = json.dumps({"username": name, "password": password}).encode()
    for path in ("/auth/token", "/auth/token/cli") if name != "admin" else ("/auth/token",):
        status, _, content = request(port, "POST", path, body, JSON)
        report.add(
            DOOR, f"log in as {name!r} at {path}", verdict("GET", status), f"{status} {content[:100]!r}"
        )


def forged(
    user: str, keys: Sequence[str] = KEYS, known: Mapping[str, object] | None = None
) -> list[tuple[str, str]]:
    """Tokens that nobody signed, or with a key that anybody may guess; `known`: more that they claim."""
    now = int(time.time())
    made = []
    for name in ("admin", user):
        claims = {"sub": name, "role": "admin", "iat": now, "nbf": now, "exp": now + 3600}
        claims |= {"aud": AUDIENCES, "iss": "airflow", "jti": "0" * 32, **(known or {})}
        made.append((f"unsigned as {name}", _token({"alg": "none"}, claims, None)))
        made += [
            (f"signed with {key!r} as {name}", _token({"alg": alg}, claims, key.encode()))
            for key in keys
            for alg in ("HS256", "HS512")
        ]
    return made


def _token(header: dict[str, str], claims: dict[str, object], key: bytes | None) -> str:
    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    signed = ".".join(part(json.dumps(each).encode()) for each in ({"typ": "JWT", **header}, claims))
    method = "sha512" if header["alg"] == "HS512" else "sha256"
    return f"{signed}." + ("" if key is None else part(hmac.digest(key, signed.encode(), method)))


def forge(report: Report, port: int, token: str, how: str, path: str) -> None:
    for where in ({"Authorization": f"Bearer {token}"}, {"Cookie": f"_token={token}"}):
        status, _, content = request(port, "GET", path, headers=where)
        label = f"a token {how}, as {next(iter(where))}, GET {path}"
        report.add(DOOR, label, verdict("GET", status), f"{status} {content[:100]!r}")
