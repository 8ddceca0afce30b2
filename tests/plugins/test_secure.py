"""The API server's front over TLS, as strangers come: without TLS, with an old one, a false one, slowly."""

from __future__ import annotations

import functools
import os
import shutil
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from sluice.runtime.settings import Settings, get_settings
from sluice.stack import tls
from sluice_lab.waiting import until
from tests.plugins.served import served

PASSWORD = {"username": "ann", "password": "right"}


@dataclass
class Site:
    """A server on a port of its own. url: begins with https."""

    settings: Settings
    url: str

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    @property
    def trusted(self) -> Path:
        return Path(self.settings.airflow.root_certificate)

    def client(self, authority: Path | None = None, **options: Any) -> httpx.Client:
        context = ssl.create_default_context(cafile=authority or self.trusted)
        return httpx.Client(base_url=self.url, verify=context, trust_env=False, timeout=20, **options)

    def connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """Says by which scheme it was asked, and what it was sent."""
    if scope["type"] == "http":
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        said = scope["scheme"].encode() + b" " + body
        headers = [(b"content-length", b"%d" % len(said))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": said})


@pytest.fixture
def site(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    from sluice_airflow.front import protocol, secure

    monkeypatch.setenv("SLUICE_TLS__MODE", "on")
    get_settings.cache_clear()
    settings = get_settings()
    tls.prepare_tls(settings)
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 1.0)
    monkeypatch.setattr(secure, "HEAD_SECONDS", 1.0)
    protocol.shares.cache_clear()
    monkeypatch.setattr(protocol, "MOST", 20)
    front = functools.partial(secure.SecureProtocol, context=tls.Context(settings))
    with served(echo, http=front, ws="none", loop="asyncio") as url:
        yield Site(settings, url.replace("http:", "https:"))
    protocol.shares.cache_clear()


def taken(site: Site) -> int:
    """How many connections have a place."""
    from sluice_airflow.front import protocol

    return sum(map(len, protocol.shares()._taken.values()))


def ending(connection: socket.socket) -> bytes:
    """What comes until the server ends the connection."""
    said = b""
    try:
        while more := connection.recv(4096):
            said += more
    except ConnectionResetError:
        pass
    return said


def test_a_client_that_trusts_the_authority_is_served(site: Site) -> None:
    with site.client() as client:
        assert client.get("/").text == "https "
        large = "x" * 3_000_000
        assert client.post("/", content=large).text == f"https {large}"
        assert client.get("/").text == "https "
    until(lambda: taken(site) == 0, 20)


@pytest.mark.slow
def test_a_request_that_comes_with_the_handshake_is_answered(site: Site) -> None:
    """OpenSSL sends a TLS 1.3 client's last message and its request together."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(cafile=site.trusted)
    end = context.wrap_bio(down, up, server_hostname="127.0.0.1")
    with closing(site.connected()) as connection:
        while True:
            try:
                end.do_handshake()
                break
            except ssl.SSLWantReadError:
                connection.sendall(up.read())
                down.write(connection.recv(65536))
        end.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        connection.sendall(up.read())
        down.write(ending(connection))
        assert end.read(65536).startswith(b"HTTP/1.1 200")


def test_plain_http_is_told_at_once(site: Site) -> None:
    asked = b"POST / HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000
    with closing(site.connected()) as connection:
        began = time.monotonic()
        connection.sendall(asked)
        said = ending(connection)
    assert said.startswith(b"HTTP/1.1 400 ")
    assert said.endswith(b"This port speaks TLS: begin the address with https://\n")
    assert b"evil.example" not in said
    assert time.monotonic() - began < 10
    until(lambda: taken(site) == 0, 20)


@pytest.mark.slow
def test_of_plain_http_nothing_is_kept(site: Site) -> None:
    process = psutil.Process()
    before = process.memory_info().rss
    with closing(site.connected()) as connection, suppress(ConnectionError):
        began = time.monotonic()
        for _ in range(4000):
            connection.sendall(b"GET" + b"x" * 65_533)
            if time.monotonic() - began > 20:
                break
    assert process.memory_info().rss - before < 100 << 20
    assert time.monotonic() - began < 20


@pytest.mark.slow
@pytest.mark.parametrize("hello", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01", b"GET"], ids=repr)
def test_whoever_does_not_go_on_is_shut_out(site: Site, hello: bytes) -> None:
    with closing(site.connected()) as connection:
        connection.sendall(hello)
        began = time.monotonic()
        ending(connection)
        assert time.monotonic() - began < 5
    until(lambda: taken(site) == 0, 20)


def test_one_who_sends_the_hello_slowly_is_shut_out(site: Site) -> None:
    with closing(site.connected()) as connection:
        began = time.monotonic()
        with suppress(ConnectionError):
            while time.monotonic() - began < 20:
                connection.sendall(b"\x16")
                time.sleep(0.05)
        assert time.monotonic() - began < 5


def test_handshakes_that_never_end_keep_nobody_out(site: Site) -> None:
    """The platform's own user comes from 127.0.0.1, so it gets a place from others."""
    with ExitStack() as held:
        for number in range(60):
            each = held.enter_context(closing(socket.socket()))
            each.bind((f"127.0.9.{1 + number % 3}", 0))
            each.connect(("127.0.0.1", site.port))
            each.sendall(b"\x16\x03\x01\x02\x00")
        with site.client() as client:
            assert client.get("/").text == "https "
        assert taken(site) <= 20


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("version", ["TLSv1", "TLSv1_1"])
def test_old_tls_is_refused(site: Site, version: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("ALL:@SECLEVEL=0")  # or the client would not even ask
    context.load_verify_locations(site.trusted)
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    with closing(site.connected()) as connection, pytest.raises(OSError, match=r"SSL|reset"):
        context.wrap_socket(connection, server_hostname="127.0.0.1")


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_new_tls_is_spoken(site: Site, version: str) -> None:
    context = ssl.create_default_context(cafile=site.trusted)
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    with (
        closing(site.connected()) as connection,
        context.wrap_socket(connection, server_hostname="127.0.0.1") as secured,
    ):
        assert secured.version() == version.replace("_", ".")


def test_a_client_that_trusts_another_authority_goes_no_further(site: Site, tmp_path: Path) -> None:
    from sluice.runtime import authority

    other = tmp_path / "other.crt"
    other.write_bytes(authority.certificate(tmp_path / "other"))
    with site.client(other) as client, pytest.raises(httpx.ConnectError, match="certificate verify failed"):
        client.post("/auth/token", json=PASSWORD)


def test_a_renewed_certificate_is_shown_without_a_start(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def shows() -> Any:
        context = ssl.create_default_context(cafile=site.trusted)
        with (
            closing(site.connected()) as connection,
            context.wrap_socket(connection, server_hostname="127.0.0.1") as secured,
        ):
            return secured.getpeercert()["serialNumber"]  # type: ignore[index]

    before = shows()
    monkeypatch.setattr(tls, "EARLY", timedelta(days=500))  # as if it ended soon
    tls.prepare_tls(site.settings)
    after = shows()
    assert after != before
    assert os.stat(tls.folder(site.settings) / tls.KEY).st_mode & 0o777 == 0o600


def test_the_platform_s_own_clients_check_the_certificate(site: Site, tmp_path: Path) -> None:
    from sluice.stack import health
    from sluice.stack.daemon import Unhealthy

    with pytest.raises(Unhealthy, match="certificate verify failed"):
        health.get_json(site.url, str(foreign(tmp_path)))
    with pytest.raises(Unhealthy, match=r"Expecting value|JSON"):  # it was reached: the echo is no JSON
        health.get_json(site.url, str(site.trusted))


def foreign(tmp_path: Path) -> Path:
    from sluice.runtime import authority

    path = tmp_path / "foreign.crt"
    path.write_bytes(authority.certificate(tmp_path / "foreign"))
    return path


def test_without_files_nobody_is_served(site: Site) -> None:
    shutil.rmtree(tls.folder(site.settings))
    with closing(site.connected()) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01")
        assert ending(connection) == b""
