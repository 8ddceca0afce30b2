"""Connections to a port of this machine, and attempts that use one."""

from __future__ import annotations

import http.client
import socket
import struct
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from .report import Outcome, Report

HOST = "127.0.0.1"
TIMEOUT_SECONDS = 4.0
#: For a server of HTTP, which may do much else, or make the page first.
ANSWER_SECONDS = 30.0
MOST_BYTES = 1 << 20
#: What is raised when an answer is not what the protocol says: something answered all the same.
ODD = (ValueError, struct.error, IndexError, http.client.HTTPException)


class Wire:
    """One connection; `take` raises EOFError when the other side closes it."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection((HOST, port), TIMEOUT_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def some(self) -> bytes:
        """What comes next, at least a byte."""
        data = self._socket.recv(1 << 16)
        if not data:
            raise EOFError("closed without an answer")
        return data

    def take(self, size: int) -> bytes:
        if not 0 <= size <= MOST_BYTES:
            raise ValueError(f"a length of {size}")
        data = b""
        while len(data) < size:
            data += self.some_of(size - len(data))
        return data

    def some_of(self, size: int) -> bytes:
        data = self._socket.recv(size)
        if not data:
            raise EOFError("closed without an answer")
        return data

    def number(self) -> int:
        """Four bytes, big end first."""
        return int(struct.unpack(">i", self.take(4))[0])

    def frame(self) -> bytes:
        """A length of four bytes and as many bytes."""
        return self.take(self.number())

    def send_frame(self, data: bytes) -> None:
        self.send(struct.pack(">i", len(data)) + data)


def attempt(
    report: Report, door: str, what: str, port: int, act: Callable[[Wire], tuple[Outcome, object]]
) -> None:
    """Connect and act; `act` returns how far it got and what it saw."""
    try:
        wire = Wire(port)
    except OSError as error:
        report.add(door, what, Outcome.UNREACHABLE, error)
        return
    with wire:
        try:
            report.add(door, what, *act(wire))
        except (OSError, EOFError) as error:
            report.add(door, what, Outcome.REFUSED, error)
        except ODD as error:
            report.add(door, what, Outcome.ANSWERED, f"not understood: {error!r}")


def request(
    port: int,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    seconds: float = ANSWER_SECONDS,
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of an HTTP request. Raises OSError, HTTPException.

    seconds: how long to wait for a connection, and for each part of the answer.
    """
    connection = http.client.HTTPConnection(HOST, port, timeout=seconds)
    try:
        connection.request(method, path, body, dict(headers or {}))
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read(MOST_BYTES)
    finally:
        connection.close()


def ask(
    report: Report,
    door: str,
    port: int,
    method: str,
    path: str,
    *,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    label: str = "",
) -> None:
    """Request a page that no stranger should get: a success is harm."""
    what = label or f"{method} {path}"
    try:
        status, answered, content = request(port, method, path, body, headers)
    except ConnectionRefusedError as error:
        report.add(door, what, Outcome.UNREACHABLE, error)
    except (OSError, http.client.HTTPException) as error:
        report.add(door, what, Outcome.REFUSED, repr(error))
    else:
        detail = f"{status} {answered.get('location', '')} {content[:150]!r}"
        report.add(door, what, verdict(method, status), detail)


def verdict(method: str, status: int) -> Outcome:
    """What a status means for a page that nobody should get."""
    if 200 <= status < 300:
        return Outcome.READ if method in ("GET", "HEAD", "OPTIONS") else Outcome.CHANGED
    return Outcome.REFUSED if 300 <= status < 500 else Outcome.ANSWERED  # 3xx: see another page
