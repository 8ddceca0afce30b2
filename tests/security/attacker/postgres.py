"""PostgreSQL by hand: does it let anybody in without the password?"""

from __future__ import annotations

import base64
import hashlib
import hmac
import struct

from .report import Outcome, Report
from .target import Target
from .wire import Wire, attempt

VERSION_3 = 196608
AUTHENTICATED, SASL, SASL_CONTINUE, SASL_FINAL = 0, 10, 11, 12
PASSWORDS = ("", "sluice", "postgres")


def postgres(target: Target, report: Report) -> None:
    port = target.ports["postgres"]
    for user in (target.user, "postgres", "airflow"):
        for database in ("sluice", "airflow", "postgres"):
            what = f"start as {user} in {database} without a password"
            attempt(report, "postgres", what, port, _started(user, {"database": database}))
    options = {"database": "sluice", "replication": "true"}
    attempt(report, "postgres", "replicate without a password", port, _started(target.user, options))
    for password in PASSWORDS:
        what = f"log in as {target.user} with {password!r}"
        attempt(report, "postgres", what, port, scram(target.user, password))


def _started(user: str, options: dict[str, str]):
    def act(wire: Wire) -> tuple[Outcome, object]:
        return _judged(*_begin(wire, user, options))

    return act


def scram(user: str, password: str):
    """An attack that logs in by SCRAM-SHA-256 (RFC 5802)."""

    def act(wire: Wire) -> tuple[Outcome, object]:
        kind, data = _begin(wire, user, {"database": "sluice"})
        if kind != b"R" or _code(data) != SASL:
            return _judged(kind, data)
        nonce = base64.b64encode(b"not so random").decode()
        first = f"n=,r={nonce}"
        begun = f"n,,{first}".encode()
        wire.send(_message(b"SCRAM-SHA-256\0" + struct.pack(">i", len(begun)) + begun))
        kind, data = _read(wire)
        if kind != b"R" or _code(data) != SASL_CONTINUE:
            return _judged(kind, data)
        server = data[4:].decode()
        given = dict(part.split("=", 1) for part in server.split(","))
        salt, rounds = base64.b64decode(given["s"]), int(given["i"])
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, rounds)
        key = hmac.digest(salted, b"Client Key", "sha256")
        last = f"c=biws,r={given['r']}"
        signed = ",".join([first, server, last]).encode()
        signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
        proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
        wire.send(_message(f"{last},p={proof}".encode()))
        return _judged(*_read(wire))

    return act


def _begin(wire: Wire, user: str, options: dict[str, str]) -> tuple[bytes, bytes]:
    pairs = {"user": user, **options}
    said = b"".join(part.encode() + b"\0" for pair in pairs.items() for part in pair) + b"\0"
    wire.send(struct.pack(">ii", len(said) + 8, VERSION_3) + said)
    return _read(wire)


def _message(data: bytes) -> bytes:
    return b"p" + struct.pack(">i", len(data) + 4) + data


def _read(wire: Wire) -> tuple[bytes, bytes]:
    kind = wire.take(1)
    return kind, wire.take(wire.number() - 4)


def _code(data: bytes) -> int:
    return int(struct.unpack(">i", data[:4])[0])


def _judged(kind: bytes, data: bytes) -> tuple[Outcome, object]:
    if kind == b"R" and _code(data) == SASL:
        return Outcome.REFUSED, "asks for a password (SCRAM)"
    if kind == b"R" and _code(data) in (AUTHENTICATED, SASL_FINAL):
        return Outcome.READ, "logged in"
    if kind == b"R":
        return Outcome.ANSWERED, f"asks in way {_code(data)}"
    return Outcome.REFUSED, kind + b" " + data
