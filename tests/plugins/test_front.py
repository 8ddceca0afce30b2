"""What stands in front of the API server: who gets in, with what, and what the browser keeps of a login."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import httpx
import pytest

from tests.plugins.served import served

OWN = "http://sluice.example:8080"
HERE = "http://127.0.0.1:21080"
TOKEN = "head.claims.signature"
JSON = {"Content-Type": "application/json"}
BEARER = {"Authorization": f"Bearer {TOKEN}"}
CONSOLE = "/sluice/console/"


class Airflow:
    """A double of the application behind: it says what it was sent, and logs in whoever asks."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, str], bytes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        length = headers.get("content-length", "0")
        body, more = b"", length != "0" or "transfer-encoding" in headers
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        self.seen.append((scope["path"], headers, body))
        logs_in = scope["path"] == "/auth/token"
        said = json.dumps({"access_token": TOKEN}).encode() if logs_in else b"served"
        answered = [(b"content-length", b"%d" % len(said))]
        if scope["path"] == "/renew":
            answered.append((b"set-cookie", f"_token={TOKEN}; Path=/; SameSite=lax".encode()))
        if scope["path"] == "/api/v2/auth/logout":
            answered.append((b"set-cookie", b'_token=""; Max-Age=0; Path=/'))
        await send({"type": "http.response.start", "status": 201 if logs_in else 200, "headers": answered})
        await send({"type": "http.response.body", "body": said, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


class Source:
    """Who the next requests come from."""

    who = "uid:1000"

    def __call__(self, peer: object) -> str:
        return self.who


@pytest.fixture
def airflow() -> Airflow:
    return Airflow()


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def guard(airflow: Airflow, source: Source, monkeypatch: pytest.MonkeyPatch) -> Any:
    from starlette.middleware.gzip import GZipMiddleware

    from sluice.stack.airflow.configuration import AUTH_MANAGER
    from sluice_airflow.front.guard import Guard
    from sluice_airflow.front.refused import RequestRefused
    from sluice_airflow.headers import SecurityHeaders

    async def check(head: Any, cookie: str) -> None:
        given = head.headers.get("authorization", "").removeprefix("Bearer ")
        if TOKEN not in (given, cookie):
            raise RequestRefused(401, "log in first")

    monkeypatch.setenv("AIRFLOW__CORE__AUTH_MANAGER", AUTH_MANAGER)
    inner = GZipMiddleware(airflow, minimum_size=1)  # as Airflow has one, and clients ask for it
    return SecurityHeaders(Guard(inner, lambda: OWN, source, check))


@pytest.fixture
def client(guard: Any) -> httpx.Client:
    from fastapi.testclient import TestClient

    return TestClient(guard, base_url=HERE, follow_redirects=False)


@pytest.fixture
def port(guard: Any) -> Iterator[int]:
    """The guard behind the server that has bounds."""
    from sluice_airflow.front.head import HEAD_BYTES
    from sluice_airflow.front.protocol import BoundedProtocol

    options = {"http": BoundedProtocol, "ws": "none", "h11_max_incomplete_event_size": HEAD_BYTES}
    with served(guard, **options) as url:
        yield int(url.rpartition(":")[2])


def log_in(client: httpx.Client) -> str:
    """The cookie of a login as a page makes it."""
    answer = client.post("/auth/token", json={"username": "ann", "password": "x"}, headers={"Origin": HERE})
    assert answer.status_code == 201
    return answer.headers["set-cookie"]


def value_of(cookie: str) -> dict[str, str]:
    return {"Cookie": cookie.partition(";")[0]}


PUBLIC = ["/auth/login", "/api/v2/version", "/api/v2/monitor/health", "/execution/health"]
PUBLIC += ["/auth/static/a.js", "/static/assets/index.js", "/api/v2/auth/logout"]


@pytest.mark.parametrize("path", PUBLIC)
def test_a_stranger_gets_to_what_is_listed(client: httpx.Client, path: str) -> None:
    assert client.get(path).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/openapi.json"),
        ("GET", "/static/index.html"),
        ("GET", "/auth/docs"),
        ("GET", "//auth/login"),
        ("GET", "/auth/login/"),
        ("GET", "/auth/loginx"),
        ("POST", "/auth/login"),
        ("POST", "/api/v2/version"),
        ("PUT", "/auth/token"),
        ("POST", "/auth/token/"),
        ("POST", "/auth/%74oken/x"),
        ("GET", "/execution/docs"),
        ("GET", "/sluice/metrics/x"),
        ("OPTIONS", "/api/v2/dags"),
        ("GET", "/nothing"),
    ],
)
def test_a_stranger_gets_to_nothing_else(
    client: httpx.Client, airflow: Airflow, method: str, path: str
) -> None:
    assert client.request(method, path).status_code == 401
    assert airflow.seen == []


@pytest.mark.parametrize("method", ["TRACE", "CONNECT", "PROPFIND", "A" * 5000])
def test_an_unknown_method_is_refused(client: httpx.Client, method: str) -> None:
    assert client.request(method, "/auth/login").status_code in (405, 400)


def test_a_person_is_led_to_the_log_in_and_a_program_is_told(client: httpx.Client) -> None:
    page = client.get("/dags?x=1&y=2", headers={"Accept": "text/html"})
    assert (page.status_code, page.headers["location"]) == (
        303,
        "/api/v2/auth/login?next=%2Fdags%3Fx%3D1%26y%3D2",
    )
    assert client.get("/api/v2/dags", headers={"Accept": "text/html"}).status_code == 401
    console = client.get(f"{CONSOLE}charts", headers={"Accept": "text/html"})
    assert console.status_code == 401
    assert "/api/v2/auth/login?next=%2Fsluice%2Fconsole%2Fcharts" in console.text


def test_a_form_that_was_sent_without_a_login_can_be_sent_again(client: httpx.Client) -> None:
    headers = {"Origin": HERE, "Accept": "text/html"}
    answer = client.post(f"{CONSOLE}statistics/review", data={"name": "x"}, headers=headers)
    assert answer.status_code == 401
    assert "You are logged out, so nothing was saved" in answer.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "most"), [("/auth/token", 16 << 10), ("/api/v2/backfills", 1 << 20), ("/execution/x", 16 << 20)]
)
def test_a_body_is_bounded_whether_or_not_it_says_its_length(
    client: httpx.Client, airflow: Airflow, path: str, most: int
) -> None:
    headers = JSON | (BEARER if path != "/auth/token" else {})
    large = json.dumps({"username": "x" * most}).encode()
    for content in (large, iter([large[:99], large[99:]])):
        answer = client.post(path, content=content, headers=headers)
        assert (answer.status_code, str(most) in answer.json()["detail"]) == (413, True)
    assert airflow.seen == []
    fitting = json.dumps({"username": "x" * (most - 99)}).encode()
    assert client.post(path, content=iter([fitting[:9], fitting[9:]]), headers=headers).status_code < 300
    assert airflow.seen[-1][2] == fitting


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Encoding": "gzip"}, 415),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": ""}, 415),
        ({"Content-Length": "-1"}, 400),
        ({"Content-Length": "9" * 5000}, 413),
    ],
)
def test_a_body_of_a_kind_that_is_not_taken_is_refused(
    client: httpx.Client, airflow: Airflow, headers: dict[str, str], status: int
) -> None:
    answer = client.post("/api/v2/dags", content=b"{}", headers=BEARER | JSON | headers)
    assert answer.status_code == status
    assert airflow.seen == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"[" * (1 << 20), 422),
        (b'{"a":' * 65 + b"1" + b"}" * 65, 422),
        (b'{"a":' * 60 + b"1" + b"}" * 60, 200),
        (b'["' + b"[" * 9999 + b'"]', 200),  # in a text they are no nesting
        (b'["\\"' + b"[" * 9999 + b'"]', 200),
        (b'"' + b'\\"' * (1 << 19), 413),
        (b'"' + b'\\"' * ((1 << 19) - 8), 200),  # a text without an end: read once
        ("[[]]".encode("utf-16"), 400),
    ],
)
def test_no_parser_sees_what_is_nested_too_deep(
    client: httpx.Client, airflow: Airflow, body: bytes, status: int
) -> None:
    began = time.monotonic()
    assert client.post("/api/v2/dags", content=body, headers=BEARER | JSON).status_code == status
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("body", [b"[]", b"1", b"{", b'{"username": 1}', b'"x"', b'{"username": "\\ud800"}'])
def test_a_log_in_that_airflow_would_fail_on_is_refused(client: httpx.Client, body: bytes) -> None:
    assert client.post("/auth/token", content=body, headers=JSON).status_code == 422


@pytest.mark.parametrize("path", ["/sluice/api/v1/tasks/%00", "/api/v2/dags?x=%00", "/a%00b"])
def test_an_address_with_a_nul_is_refused(client: httpx.Client, path: str) -> None:
    answer = client.get(path, headers=BEARER)
    assert (answer.status_code, "holds a NUL" in answer.json()["detail"]) == (400, True)


# --- Whose page sent it ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (HERE, 200),  # as the request was addressed
        (OWN, 200),  # as people address it, through a proxy
        ("http://evil.example", 403),
        ("http://127.0.0.1", 403),  # another port is another site
        ("https://127.0.0.1:21080", 403),
        (f"{HERE}.evil.example", 403),
        ("http://localhost:21080", 403),
        ("null", 403),
        ("", 403),
        ("http://[", 403),
    ],
)
@pytest.mark.parametrize("login", ["bearer", "cookie"])
def test_another_sites_page_reads_and_changes_nothing(
    client: httpx.Client, origin: str, status: int, login: str
) -> None:
    headers = BEARER if login == "bearer" else value_of(log_in(client))
    for method in ("GET", "POST", "DELETE"):
        answer = client.request(method, "/api/v2/dags/x/favorite", headers=headers | {"Origin": origin})
        assert answer.status_code == status, method


def test_a_name_that_anybody_may_point_here_is_not_this_server(client: httpx.Client) -> None:
    pointed = {"Host": "evil.example:21080", "Origin": "http://evil.example:21080"}
    assert client.post("/api/v2/x", headers=BEARER | pointed).status_code == 403
    local = {"Host": "localhost:21080", "Origin": "http://localhost:21080"}
    assert client.post("/api/v2/x", headers=BEARER | local).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "nonsense"])
def test_what_the_browser_says_of_the_page_counts_too(client: httpx.Client, site: str) -> None:
    cookie = value_of(log_in(client))
    sent = cookie | {"Sec-Fetch-Site": site}
    assert client.post("/api/v2/dags/x/favorite", headers=sent).status_code == 403
    for dest, mode in (
        ("image", "no-cors"),
        ("empty", "cors"),
        ("iframe", "navigate"),
        ("script", "no-cors"),
    ):
        embedded = sent | {"Sec-Fetch-Dest": dest, "Sec-Fetch-Mode": mode}
        assert client.get("/dags", headers=embedded).status_code == 403
    shown = sent | {"Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate"}
    assert client.get("/dags", headers=shown).status_code == 200
    assert client.get("/api/v2/auth/logout", headers=shown).status_code == 403
    assert client.get("/ui/config", headers=shown).status_code == 403
    own = cookie | {"Sec-Fetch-Site": "same-origin"}
    assert client.post("/api/v2/dags/x/favorite", headers=own).status_code == 200


def test_a_cookie_alone_changes_nothing_and_a_token_does(client: httpx.Client) -> None:
    cookie = value_of(log_in(client))
    assert client.post("/api/v2/x", headers=cookie).status_code == 403
    assert client.post("/api/v2/x", headers={"Cookie": f"_token={TOKEN}"}).status_code == 403
    assert client.get("/api/v2/x", headers=cookie).status_code == 200
    assert client.post("/api/v2/x", headers=BEARER).status_code == 200


def test_another_site_cannot_log_a_browser_in(client: httpx.Client) -> None:
    login = {"username": "ann", "password": "x"}
    assert (
        client.post("/auth/token", json=login, headers={"Origin": "http://evil.example"}).status_code == 403
    )
    form = {"Origin": "null", "Sec-Fetch-Site": "cross-site"}
    assert client.post("/auth/token", data=login, headers=form).status_code == 403


@pytest.mark.parametrize(
    ("path", "origin", "status"),
    [(f"{CONSOLE}x", HERE, 200), (f"{CONSOLE}x", None, 415), ("/sluice/api/v1/tasks", HERE, 415)],
)
def test_only_this_servers_pages_send_forms_and_only_to_the_console(
    client: httpx.Client, path: str, origin: str | None, status: int
) -> None:
    headers = BEARER | ({"Origin": origin} if origin else {})
    assert client.post(path, data={"a": "b"}, headers=headers).status_code == status


def test_a_link_on_another_site_leads_a_person_who_is_logged_in_to_the_page(client: httpx.Client) -> None:
    """The browser sends no strict cookie with it, but does so when the page that it gets asks again."""
    followed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert "refresh" in client.get("/dags", headers=followed | {"Accept": "text/html"}).text
    again = followed | {"Sec-Fetch-Site": "same-origin"} | value_of(log_in(client))
    assert client.get("/dags", headers=again).text == "served"


def test_other_sites_cannot_frame_or_embed_it(client: httpx.Client) -> None:
    for answer in (client.get("/dags", headers=BEARER), client.get("/dags"), client.get("/auth/login")):
        assert answer.headers["x-frame-options"] == "SAMEORIGIN"
        assert "frame-ancestors 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["x-content-type-options"] == "nosniff"


# --- What the browser keeps --------------------------------------------------------------------------------


def test_a_page_that_logs_in_gets_a_cookie_that_no_script_reads(client: httpx.Client) -> None:
    login = {"username": "ann", "password": "x"}
    answer = client.post("/auth/token", json=login, headers={"Origin": HERE})
    assert TOKEN not in answer.text
    name, *attributes = [part.strip() for part in answer.headers["set-cookie"].split(";")]
    assert name.startswith("_token=")
    assert TOKEN not in name
    assert set(attributes) == {"Path=/", "HttpOnly", "SameSite=Strict"}
    client.cookies.clear()
    program = client.post("/auth/token", json=login)
    assert (program.json()["access_token"], "set-cookie" in program.headers) == (TOKEN, False)


def test_behind_tls_the_cookie_is_for_this_server_alone(airflow: Airflow, guard: Any) -> None:
    from fastapi.testclient import TestClient

    client = TestClient(guard, base_url="https://127.0.0.1:21080")
    origin = {"Origin": "https://127.0.0.1:21080"}
    login = {"username": "ann", "password": "x"}
    cookie = client.post("/auth/token", json=login, headers=origin).headers["set-cookie"]
    assert cookie.startswith("__Host-_token=")
    assert {part.strip() for part in cookie.split(";")[1:]} == {
        "Path=/",
        "HttpOnly",
        "SameSite=Strict",
        "Secure",
    }
    assert client.get("/api/v2/x", headers=value_of(cookie)).status_code == 200
    assert airflow.seen[-1][1]["cookie"] == f"_token={TOKEN}"
    elsewhere = {"Cookie": value_of(cookie)["Cookie"].removeprefix("__Host-")}
    client.cookies.clear()
    assert client.get("/api/v2/x", headers=elsewhere).status_code == 401


def test_what_airflow_sets_is_sealed_and_what_it_deletes_is_deleted(client: httpx.Client) -> None:
    renewed = client.get("/renew", headers=BEARER).headers["set-cookie"]
    assert TOKEN not in renewed
    assert "HttpOnly; SameSite=Strict" in renewed
    client.cookies.clear()
    assert client.get("/api/v2/x", headers=value_of(renewed)).status_code == 200
    gone = client.get("/api/v2/auth/logout").headers["set-cookie"]
    assert gone == "_token=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"


def test_the_cookie_is_of_use_to_nobody_else(client: httpx.Client, airflow: Airflow, source: Source) -> None:
    cookie = value_of(log_in(client))
    client.cookies.clear()
    assert client.get("/api/v2/x", headers=cookie).status_code == 200
    assert airflow.seen[-1][1]["cookie"] == f"_token={TOKEN}"
    source.who = "uid:65534"
    assert client.get("/api/v2/x", headers=cookie).status_code == 401
    sealed = cookie["Cookie"].removeprefix("_token=")
    assert client.get("/api/v2/x", headers={"Authorization": f"Bearer {sealed}"}).status_code == 401


def test_another_port_cannot_put_its_own_login_into_a_browser(client: httpx.Client, source: Source) -> None:
    browser = {"Sec-Fetch-Site": "same-origin"}
    assert client.get("/api/v2/x", headers=browser | {"Cookie": f"_token={TOKEN}"}).status_code == 401
    source.who = "uid:65534"
    strangers = value_of(log_in(client))["Cookie"]
    source.who = "uid:1000"
    own = value_of(log_in(client))["Cookie"]
    client.cookies.clear()
    assert client.get("/api/v2/x", headers=browser | {"Cookie": strangers}).status_code == 401
    assert client.get("/api/v2/x", headers=browser | {"Cookie": f"{strangers}; {own}"}).status_code == 200


def test_other_cookies_go_through(client: httpx.Client, airflow: Airflow) -> None:
    cookie = value_of(log_in(client))["Cookie"]
    client.cookies.clear()
    client.get("/api/v2/x", headers={"Cookie": f"a=1; {cookie}; b=x=y"})
    assert airflow.seen[-1][1]["cookie"] == f"a=1; b=x=y; _token={TOKEN}"


# --- Below HTTP ---------------------------------------------------------------------------------------------


def sent(port: int, data: bytes, timeout: float = 20) -> bytes:
    """What comes back until the server closes."""
    with closing(socket.create_connection(("127.0.0.1", port), timeout=timeout)) as connection:
        try:
            connection.sendall(data)
            return b"".join(iter(lambda: connection.recv(1 << 16), b""))
        except ConnectionError:
            return b"reset"


REQUEST = b"POST /auth/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"Transfer-Encoding: chunked, gzip\r\n\r\n",
        b"Content-Length: +2\r\n\r\n{}",
        b"Content-Length : 2\r\n\r\n{}",
        b"X: " + b"a" * (64 << 10) + b"\r\n\r\n",
        b"".join(b"X%d: a\r\n" % number for number in range(9999)) + b"\r\n",
        b"Host: y\r\n\r\n",
        b"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n",
        b"X: a\0b\r\n\r\n",
    ],
)
def test_a_head_that_is_ambiguous_or_too_large_is_refused(port: int, airflow: Airflow, head: bytes) -> None:
    assert sent(port, REQUEST + head)[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 431", b"reset")
    assert airflow.seen == []


def test_a_web_socket_is_not_opened(port: int) -> None:
    upgrade = b"Upgrade: websocket\r\nSec-WebSocket-Key: eA==\r\nSec-WebSocket-Version: 13\r\n"
    request = b"GET /x HTTP/1.1\r\nHost: x\r\nConnection: upgrade, close\r\n" + upgrade + b"\r\n"
    assert b" 401 " in sent(port, request).split(b"\r\n")[0]


def test_requests_in_a_row_are_answered_one_by_one(port: int) -> None:
    one = b"GET /auth/login HTTP/1.1\r\nHost: x\r\n\r\n"
    last = one.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    assert sent(port, one * 20 + last).count(b"served") == 21


@pytest.mark.slow
def test_a_slow_head_and_a_slow_body_are_given_up(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from sluice_airflow.front import body, protocol

    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(body, "SECONDS", 0.3)
    began = time.monotonic()
    assert sent(port, b"") in (b"", b"reset")
    assert sent(port, b"POST /auth/token HTT") in (b"", b"reset")
    assert b" 408 " in sent(port, REQUEST + b"Content-Length: 2\r\n\r\n{").split(b"\r\n")[0]
    assert time.monotonic() - began < 10


@pytest.mark.slow
def test_a_drop_now_and_then_keeps_no_connection_open(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from sluice_airflow.front import protocol

    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.5)
    with closing(socket.create_connection(("127.0.0.1", port), timeout=20)) as connection:
        began = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() - began < 10:
                connection.sendall(b"X")
                time.sleep(0.1)
    assert time.monotonic() - began < 5


@pytest.mark.slow
def test_a_large_body_is_refused_at_once_and_not_kept(port: int) -> None:
    """The client reads the refusal, although it sends on."""
    import os

    import psutil

    before, piece = psutil.Process(os.getpid()).memory_info().rss, b"[]," * 349_525
    with closing(socket.create_connection(("127.0.0.1", port), timeout=20)) as connection:
        connection.sendall(REQUEST + b"Transfer-Encoding: chunked\r\n\r\n")
        with suppress(ConnectionError):
            for _ in range(64):
                connection.sendall(b"%x\r\n" % len(piece) + piece + b"\r\n")
        assert b" 413 " in connection.recv(1 << 16).split(b"\r\n")[0]
    assert psutil.Process(os.getpid()).memory_info().rss - before < 16 << 20
