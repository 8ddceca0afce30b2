"""Attacks on the door of the SQL endpoint: before the log-in, as a session opens, with others' handles."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from typing import Any

import psutil
import pytest
from pyhive import exc
from TCLIService import ttypes
from thrift.transport.TTransport import TTransportException

from sluice.stack.users import Users
from sluice.storage.hive import connect
from sluice_lab.waiting import until
from tests.sql import alone
from tests.sql.alone import Endpoint

pytestmark = pytest.mark.slow

LOGINS, LOGIN_SECONDS = 8, 10  # enough for a log-in on a machine that does much else
STATEMENT_SECONDS = 40
START, OK, BAD, COMPLETE = 1, 2, 3, 5
ZONE = "spark.sql.session.timeZone"
ZONES = (ZONE, f"set:{ZONE}", f"set:hiveconf:{ZONE}")
DRIVERS_OWN = ("hive.server2.thrift.resultset.default.fetch.size",)
REFUSED = {
    "set:system:javax.xml.parsers.DocumentBuilderFactory": "evil.Factory",
    "set:system:sluice.users": "/tmp/evil",
    "set:hivevar:a": "${env:HOME}",
    "set:metaconf:hive.metastore.try.direct.sql": "false",
    "set:env:A": "x",
    "set:hiveconf:hive.session.id": "x",
    "set:hiveconf:spark.sql.defaultCatalog": "evil",
    "set:hiveconf:spark.sql.thriftserver.scheduler.pool": "sluice",
    "hive.server2.proxy.user": "sluice",
    "hive.exec.pre.hooks": "java.lang.Object",
    "hive.metastore.uris": "thrift://127.0.0.1:9",
    "spark.sql.extensions": "evil.Extension",
    "use:catalog": "evil",
    "use:database": "default; SET x=1",
    "spark.sql.session.timeZone": "${env:HOME}",
}


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    folder = tmp_path_factory.mktemp("door")
    limits = {"logins": LOGINS, "login_seconds": LOGIN_SECONDS, "connections_of_user": 4}
    with alone.running(folder, statement_seconds=STATEMENT_SECONDS, **limits) as found:
        yield found
        assert found.process.poll() is None, alone.log_of(found)[-3000:]


def reason(error: exc.Error) -> str:
    return str(error.args[0].status.errorMessage)


@pytest.mark.parametrize("key", REFUSED)
@pytest.mark.parametrize("user", ["eve", None])
def test_a_session_is_opened_with_nothing_else(endpoint: Endpoint, key: str, user: str | None) -> None:
    """Not for the platform's own user either."""
    with pytest.raises(exc.OperationalError) as refused:
        endpoint.session(user, configuration={key: REFUSED[key]})
    value = key in ("use:database", "spark.sql.session.timeZone")
    assert (REFUSED[key] if value else key) in reason(refused.value)


@pytest.mark.parametrize("key", ZONES)
def test_a_session_is_opened_with_a_time_zone_and_a_database(endpoint: Endpoint, key: str) -> None:
    given = {key: "Europe/Berlin", "use:database": "default", **dict.fromkeys(DRIVERS_OWN, "1000")}
    with closing(endpoint.session("ann", configuration=given)) as opened, closing(opened.cursor()) as cursor:
        cursor.execute("SELECT current_timezone(), current_database()")
        assert cursor.fetchall() == [("Europe/Berlin", "default")]


def test_another_user_s_session_and_operation_are_refused(endpoint: Endpoint) -> None:
    with closing(endpoint.session("ann")) as hers, closing(endpoint.session("eve")) as other:
        cursor = hers.cursor()
        cursor.execute("SELECT 42")
        session, operation = hers._sessionHandle, cursor._operationHandle
        client: Any = other.client
        calls: list[tuple[Callable[[Any], Any], Any]] = [
            (client.ExecuteStatement, ttypes.TExecuteStatementReq(session, "SELECT 1")),
            (client.GetTables, ttypes.TGetTablesReq(session)),
            (client.GetInfo, ttypes.TGetInfoReq(session, ttypes.TGetInfoType.CLI_DBMS_NAME)),
            (client.CloseSession, ttypes.TCloseSessionReq(session)),
            (client.GetOperationStatus, ttypes.TGetOperationStatusReq(operation)),
            (client.GetResultSetMetadata, ttypes.TGetResultSetMetadataReq(operation)),
            (client.FetchResults, ttypes.TFetchResultsReq(operation, maxRows=1)),
            (client.CancelOperation, ttypes.TCancelOperationReq(operation)),
            (client.CloseOperation, ttypes.TCloseOperationReq(operation)),
        ]
        for call, request in calls:
            assert "not yours" in str(call(request).status.errorMessage), request
        assert cursor.fetchall() == [(42,)]


@pytest.mark.parametrize("change", ["password", "role", "removed", "again"])
def test_an_open_session_ends_with_what_its_user_was(endpoint: Endpoint, change: str) -> None:
    users, name = Users(endpoint.settings), f"gone-{change}"
    login = {"user": name, "password": users.add(name, "viewer")}
    where = endpoint.settings.hive.model_copy(update=login)
    with closing(connect(where, 60)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchall() == [(1,)]
        cursor.execute("SELECT 2")
        if change == "password":
            users.set_password(name)
        elif change == "role":
            users.set_role(name, "admin")
        else:
            users.remove(name)
            if change == "again":  # another person gets the name
                users.add(name, "admin")
        for call in (cursor.fetchall, lambda: cursor.execute("SELECT 1")):
            with pytest.raises(exc.Error) as error:
                call()
            assert "your log-in is over" in reason(error.value)
    assert endpoint.ask("SELECT 1", "ann").rows == [(1,)]


def test_a_call_that_is_not_named_is_refused(endpoint: Endpoint) -> None:
    with closing(endpoint.session("eve")) as opened:
        session = opened._sessionHandle
        token = ttypes.TGetDelegationTokenReq(session, "eve", "eve")
        said = opened.client.GetDelegationToken(token).status.errorMessage
        assert "GetDelegationToken is not allowed" in said


def stranger(endpoint: Endpoint, *messages: tuple[int, bytes | int]) -> socket.socket:
    """A connection that sends these messages: a status, and text or the mere length of one."""
    made = socket.create_connection((endpoint.settings.hive.host, endpoint.settings.hive.port), timeout=20)
    for status, text in messages:
        promised = text if isinstance(text, int) else len(text)
        made.sendall(struct.pack(">bI", status, promised) + (b"" if isinstance(text, int) else text))
    return made


def answered(connection: socket.socket) -> bytes:
    """What comes before the endpoint closes the connection."""
    said = b""
    try:
        while more := connection.recv(4096):
            said += more
    except ConnectionResetError:
        pass
    return said


@pytest.mark.parametrize("size", [5000, 104_857_599, 2**31 - 1, 2**32 - 1])
def test_a_length_before_the_log_in_allocates_nothing(endpoint: Endpoint, size: int) -> None:
    process = psutil.Process(endpoint.process.pid)
    before = process.memory_info().rss
    with ExitStack() as held:
        began = time.monotonic()
        for _ in range(2 * LOGINS):
            each = held.enter_context(stranger(endpoint, (START, b"PLAIN"), (OK, size)))
            assert answered(each)[:1] in (bytes([BAD]), b"")
        assert time.monotonic() - began < 20
    assert process.memory_info().rss - before < 100 << 20
    assert endpoint.ask("SELECT 1").rows == [(1,)]


@pytest.mark.parametrize(
    "messages",
    [
        ((START, b"GSSAPI"),),
        ((START, b"ANONYMOUS"),),
        ((OK, b"PLAIN"),),
        ((START, b"PLAIN"), (OK, b"sluice\0eve\0wrong")),
        ((START, b"PLAIN"), (OK, b"\0eve")),
        ((START, b"PLAIN"), (OK, b"")),
        ((START, 2**31 - 1),),
    ],
    ids=str,
)
def test_no_other_way_to_log_in(endpoint: Endpoint, messages: tuple[tuple[int, bytes | int], ...]) -> None:
    with stranger(endpoint, *messages) as connection:
        said = answered(connection)
        assert said[0] == BAD, said


def test_nobody_acts_as_another(endpoint: Endpoint) -> None:
    login = f"sluice\0eve\0{endpoint.passwords['eve']}".encode()
    with stranger(endpoint, (START, b"PLAIN"), (OK, login)) as connection:
        assert b"act as another" in answered(connection)


def test_those_who_say_nothing_keep_nobody_out_and_are_shut_out(endpoint: Endpoint) -> None:
    with ExitStack() as held:
        silent = [held.enter_context(stranger(endpoint)) for _ in range(100)]
        asked = time.monotonic()
        assert endpoint.ask("SELECT 1", "ann").rows == [(1,)]
        assert time.monotonic() - asked < 20
        for each in silent:
            assert answered(each) == b""


def test_one_who_sends_slowly_is_shut_out(endpoint: Endpoint) -> None:
    """A byte a moment would keep a time limit on each read from ever passing."""
    with stranger(endpoint) as connection:
        began = time.monotonic()
        with suppress(ConnectionError):  # however the system says that it is closed
            while time.monotonic() - began < 10 * LOGIN_SECONDS:
                connection.sendall(b"\1")
                time.sleep(0.2)
        assert time.monotonic() - began < 5 * LOGIN_SECONDS


def test_a_user_has_so_many_connections(endpoint: Endpoint) -> None:
    with ExitStack() as held:
        for _ in range(4):
            held.enter_context(closing(endpoint.session("bob")))
        with pytest.raises(TTransportException, match=r"sql\.connections_of_user"):
            endpoint.session("bob")
        assert endpoint.ask("SELECT 1", "ann").rows == [(1,)]
    until(lambda: endpoint.ask("SELECT 1", "bob").rows == [(1,)])


@pytest.mark.parametrize("size", [64 << 20, 2**31 - 1, 2**32 - 1])
def test_a_length_after_the_log_in_allocates_nothing(endpoint: Endpoint, size: int) -> None:
    login = f"\0eve\0{endpoint.passwords['eve']}".encode()
    with stranger(endpoint, (START, b"PLAIN"), (OK, login)) as connection:
        assert connection.recv(5) == struct.pack(">bI", COMPLETE, 0)
        connection.sendall(struct.pack(">I", size) + b"x" * 100)
        assert answered(connection) == b""
    assert endpoint.ask("SELECT 1", "ann").rows == [(1,)]


def test_a_statement_has_so_many_seconds(endpoint: Endpoint) -> None:
    with pytest.raises(exc.OperationalError) as stopped:
        endpoint.ask("SELECT count(*) FROM range(1000000000000000) WHERE id % 7 = 8", "bob", 300)
    assert "sql.statement_seconds" in reason(stopped.value)


def nested(depth: int) -> bytes:
    """A call whose request has a field that nobody knows: a structure in a structure, so deep."""
    name, structure = b"GetInfo", struct.pack(">bh", 12, 1)
    call = struct.pack(">II", 0x80010001, len(name)) + name + struct.pack(">I", 1) + structure
    call += struct.pack(">bh", 12, 99) + structure * (depth - 1) + bytes(depth + 2)
    return struct.pack(">I", len(call)) + call


@pytest.mark.parametrize("depth", [40, 100_000])
def test_a_field_that_nobody_knows_is_not_followed_for_long(endpoint: Endpoint, depth: int) -> None:
    """What CVE-2026-43871 is about: Thrift's own bound is 2,147,483,647."""
    login = f"\0eve\0{endpoint.passwords['eve']}".encode()
    with stranger(endpoint, (START, b"PLAIN"), (OK, login)) as connection:
        assert connection.recv(5) == struct.pack(">bI", COMPLETE, 0)
        connection.sendall(nested(10))
        (length,) = struct.unpack(">I", connection.recv(4, socket.MSG_WAITALL))
        assert b"GetInfo" in connection.recv(length, socket.MSG_WAITALL)
        connection.sendall(nested(depth))
        assert answered(connection) == b""
    assert endpoint.ask("SELECT 1", "ann").rows == [(1,)]
