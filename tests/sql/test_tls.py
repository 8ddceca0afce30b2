"""The SQL endpoint's door over TLS: who comes without, with an old one, another authority, too slowly."""

from __future__ import annotations

import csv
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path

import pytest
from thrift.transport.TTransport import TTransportException

from sluice.client.errors import Unreachable
from sluice.client.sql import Sql
from sluice.runtime import authority
from sluice.runtime.jvm import java
from sluice.stack import tls
from sluice.stack.environment import spark_home
from sluice.storage.hive import connect
from sluice.transmission.listener import STORE_PASSWORD
from sluice_lab.waiting import until
from tests.sql import alone
from tests.sql.alone import Endpoint

pytestmark = pytest.mark.slow

LOGINS, LOGIN_SECONDS = 8, 3


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    folder = tmp_path_factory.mktemp("door")
    with alone.running(folder, secured=True, logins=LOGINS, login_seconds=LOGIN_SECONDS) as found:
        yield found
        assert found.process.poll() is None, alone.log_of(found)[-3000:]


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another authority."""
    folder = tmp_path_factory.mktemp("foreign")
    path = folder / "authority.crt"
    path.write_bytes(authority.certificate(folder))
    return path


def stranger(endpoint: Endpoint) -> socket.socket:
    return socket.create_connection((endpoint.settings.hive.host, endpoint.settings.hive.port), timeout=20)


def ending(connection: socket.socket) -> bytes:
    """What comes until the endpoint ends the connection."""
    said = b""
    try:
        while more := connection.recv(4096):
            said += more
    except ConnectionResetError:
        pass
    return said


def context(endpoint: Endpoint) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=endpoint.settings.hive.root_certificate)


def test_the_platform_and_people_ask_over_tls(endpoint: Endpoint) -> None:
    assert endpoint.settings.hive.root_certificate
    assert endpoint.ask("SELECT 1").rows == [(1,)]
    assert endpoint.ask("SELECT repeat('x', 100000)", "ann").rows == [("x" * 100_000,)]


def test_the_client_for_notebooks_asks_over_tls(endpoint: Endpoint, foreign: Path) -> None:
    where = endpoint.settings.hive
    login = where.host, where.port, "ann", endpoint.passwords["ann"], "default"
    with closing(Sql(*login, tls=context(endpoint))) as client:
        assert client.query("SELECT 1 AS a").to_pylist() == [{"a": 1}]
    with (
        closing(Sql(*login, tls=ssl.create_default_context(cafile=foreign))) as client,
        pytest.raises(Unreachable, match="certificate verify failed"),
    ):
        client.query("SELECT 1")


def test_beeline_asks_over_tls(endpoint: Endpoint) -> None:
    where = endpoint.settings.hive
    store = tls.folder(endpoint.settings) / tls.TRUST_STORE
    secure = f"ssl=true;sslTrustStore={store};trustStorePassword={STORE_PASSWORD}"
    beeline = [java(), "-cp", str(spark_home() / "jars" / "*"), "org.apache.hive.beeline.BeeLine"]
    login = ["-u", f"jdbc:hive2://{where.host}:{where.port}/default;{secure}", "-n", "ann"]
    login += ["-p", endpoint.passwords["ann"]]
    done = subprocess.run(
        [*beeline, *login, "--outputformat=csv2", "--silent=true", "-e", "SELECT 40 + 2 AS a;"],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert ["42"] in list(csv.reader(done.stdout.splitlines()))


def test_a_log_in_without_tls_is_ended_at_once(endpoint: Endpoint) -> None:
    where = endpoint.settings.hive.model_copy(update={"root_certificate": ""})
    began = time.monotonic()
    with pytest.raises(TTransportException):
        connect(where, 20)
    assert time.monotonic() - began < 10


def test_a_client_that_trusts_another_authority_does_not_log_in(endpoint: Endpoint, foreign: Path) -> None:
    where = endpoint.settings.hive.model_copy(update={"root_certificate": str(foreign)})
    with pytest.raises(TTransportException, match="certificate verify failed"):
        connect(where, 20)


def test_a_client_checks_the_name(endpoint: Endpoint) -> None:
    where = endpoint.settings.hive.model_copy(update={"host": "127.0.0.2"})
    with pytest.raises(TTransportException, match=r"127\.0\.0\.2|Connection refused"):
        connect(where, 20)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
@pytest.mark.parametrize("version", ["TLSv1", "TLSv1_1"])
def test_old_tls_is_refused(endpoint: Endpoint, version: str) -> None:
    old = context(endpoint)
    old.set_ciphers("ALL:@SECLEVEL=0")  # or the client would not even ask
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    old.maximum_version = ssl.TLSVersion[version]
    with closing(stranger(endpoint)) as connection, pytest.raises(ssl.SSLError, match=r"(?i)version"):
        old.wrap_socket(connection, server_hostname=endpoint.settings.hive.host)


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_new_tls_is_spoken(endpoint: Endpoint, version: str) -> None:
    new = context(endpoint)
    new.minimum_version = new.maximum_version = ssl.TLSVersion[version]
    with (
        closing(stranger(endpoint)) as connection,
        new.wrap_socket(connection, server_hostname=endpoint.settings.hive.host) as secured,
    ):
        assert secured.version() == version.replace("_", ".")


@pytest.mark.parametrize("hello", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00"], ids=repr)
def test_handshakes_that_never_end_keep_nobody_out_and_are_shut_out(endpoint: Endpoint, hello: bytes) -> None:
    with ExitStack() as held:
        silent = [held.enter_context(closing(stranger(endpoint))) for _ in range(5 * LOGINS)]
        for each in silent:
            each.sendall(hello)
        began = time.monotonic()
        assert endpoint.ask("SELECT 1", "ann").rows == [(1,)]
        for each in silent:
            ending(each)
        assert time.monotonic() - began < 5 * LOGIN_SECONDS


def test_who_ends_the_handshake_and_says_nothing_is_shut_out(endpoint: Endpoint) -> None:
    with (
        closing(stranger(endpoint)) as connection,
        context(endpoint).wrap_socket(connection, server_hostname=endpoint.settings.hive.host) as secured,
    ):
        began = time.monotonic()
        assert secured.recv(1) == b""
        assert time.monotonic() - began < 5 * LOGIN_SECONDS


def test_a_wrong_password_is_answered(endpoint: Endpoint) -> None:
    wrong = endpoint.settings.hive.model_copy(update={"user": "eve", "password": "wrong"})
    with pytest.raises(TTransportException, match="the user or the password is wrong"):
        connect(wrong, 20)


def test_a_connection_is_read_on_after_a_long_statement(endpoint: Endpoint) -> None:
    """While it runs, the endpoint looks whether the client is still there, and gives up waiting each time."""
    with closing(endpoint.session("ann", 120)) as opened, closing(opened.cursor()) as cursor:
        cursor.execute("SELECT count(*) FROM range(200000000) WHERE id % 7 = 1")
        assert cursor.fetchall() == [(28_571_429,)]
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == [(1,)]


def test_a_statement_of_a_client_that_has_gone_is_stopped(endpoint: Endpoint) -> None:
    mark = "gone_over_tls"
    opened = endpoint.session("ann", 120)
    statement = f"SELECT count(*) AS {mark} FROM range(1000000000000) WHERE id % 7 = 1"
    opened.cursor().execute(statement, async_=True)
    until(lambda: mark in listed(endpoint))
    opened._transport.close()
    until(lambda: mark not in listed(endpoint), 60)


def listed(endpoint: Endpoint) -> str:
    """The statements that run."""
    return str([row for row in endpoint.ask("SHOW STATEMENTS").rows if "SHOW STATEMENTS" not in str(row)])


def test_a_renewed_certificate_is_shown_without_a_start(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shows() -> object:
        with (
            closing(stranger(endpoint)) as connection,
            context(endpoint).wrap_socket(connection, server_hostname="127.0.0.1") as secured,
        ):
            return secured.getpeercert()["serialNumber"]  # type: ignore[index]

    before = shows()
    monkeypatch.setattr(tls, "EARLY", timedelta(days=500))  # as if it ended soon
    tls.prepare_tls(endpoint.settings)
    assert shows() != before
    assert endpoint.ask("SELECT 1").rows == [(1,)]
