"""Thrift by hand: the SQL endpoint, the metastore, HBase's Thrift server."""

from __future__ import annotations

import struct

from .report import Outcome, Report
from .target import Target
from .wire import Wire, attempt

CALL, REPLY = 1, 2
STOP, I32, STRING, STRUCT = 0, 8, 11, 12
START, OK, BAD, ERROR, COMPLETE = 1, 2, 3, 4, 5  # messages of the SASL transport
PROTOCOL_V8 = 7


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack(">i", len(data)) + data


def field(kind: int, number: int, value: bytes) -> bytes:
    return struct.pack(">bh", kind, number) + value


def call(method: str, arguments: bytes = b"") -> bytes:
    """A call in Thrift's strict binary protocol."""
    begin = struct.pack(">I", 0x80010000 | CALL) + text(method) + struct.pack(">i", 1)
    return begin + arguments + bytes([STOP])


def open_session(user: str = "", password: str = "") -> bytes:
    wanted = field(I32, 1, struct.pack(">i", PROTOCOL_V8))
    wanted += field(STRING, 2, text(user)) + field(STRING, 3, text(password)) + bytes([STOP])
    return call("OpenSession", field(STRUCT, 1, wanted))


def judged(answer: bytes) -> tuple[Outcome, object]:
    """A reply (not an exception) to a call means that the call was served."""
    word = struct.unpack(">I", answer[:4])[0]
    if word >> 16 != 0x8001:
        return Outcome.ANSWERED, answer[:80]
    return (Outcome.READ if word & 0xFF == REPLY else Outcome.REFUSED), answer[4:150]


def called(method: str, *, framed: bool = False):
    """An attack that calls a method without arguments."""

    def act(wire: Wire) -> tuple[Outcome, object]:
        if framed:
            wire.send_frame(call(method))
            return judged(wire.frame())
        wire.send(call(method))
        return judged(wire.some())

    return act


def plain(user: str, password: str, mechanism: str = "PLAIN"):
    """An attack that logs in by SASL; if it gets in, it opens a session."""

    def act(wire: Wire) -> tuple[Outcome, object]:
        for status, payload in ((START, mechanism.encode()), (OK, f"\0{user}\0{password}".encode())):
            wire.send(struct.pack(">bi", status, len(payload)) + payload)
        status = wire.take(1)[0]
        said = wire.frame()
        if status != COMPLETE:
            return Outcome.REFUSED, f"status {status}: {said[:100]!r}"
        wire.send_frame(open_session(user, password))
        return judged(wire.frame())

    return act


def nosasl(wire: Wire) -> tuple[Outcome, object]:
    wire.send(open_session("sluice"))
    answer = wire.some()
    if answer[0] in (BAD, ERROR):
        return Outcome.REFUSED, answer[:100]
    return judged(answer)


def sql_endpoint(target: Target, report: Report) -> None:
    port = target.ports["sql"]
    attempt(report, "sql", "open a session without SASL", port, nosasl)
    logins = [("", ""), (target.user, ""), (target.user, "wrong"), (target.user, target.user), ("hive", "")]
    logins += [(name, password) for name in target.people for password in ("", name)]
    for user, password in logins:
        attempt(report, "sql", f"log in as {user!r} with {password!r}", port, plain(user, password))
    for mechanism in ("ANONYMOUS", "DIGEST-MD5", "GSSAPI"):
        attempt(report, "sql", f"log in by {mechanism}", port, plain(target.user, "", mechanism))


def metastore(target: Target, report: Report) -> None:
    attempt(report, "metastore", "list databases", target.ports["metastore"], called("get_all_databases"))


def hbase_thrift(target: Target, report: Report) -> None:
    for framed in (False, True):
        what = f"list tables, {'framed' if framed else 'unframed'}"
        port = target.ports["hbase_thrift"]
        attempt(report, "hbase_thrift", what, port, called("getTableNames", framed=framed))
