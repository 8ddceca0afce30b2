"""Flume's Avro sources, which take any line, and the agents' metrics."""

from __future__ import annotations

import hashlib
import struct
from concurrent.futures import ThreadPoolExecutor

from .kafka import LINE
from .kafka import _zigzag as number
from .report import Outcome, Report
from .target import Target
from .wire import Wire, ask, attempt

AGENTS = 21  # ports tried in each of the ranges
RANGES = (0, 100, 200)  # above the first of Flume's ports: tier 2, metrics of tier 1, metrics of tier 2
NONE = 2  # Avro's "we do not know each other's protocol"


def flume(target: Target, report: Report) -> None:
    first = target.ports["flume"]
    ports = [first + start + agent for start in RANGES for agent in range(AGENTS)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda port: _agent(port, report), ports))


def _agent(port: int, report: Report) -> None:
    attempt(report, "flume", f"append an event at port {port}", port, _append)
    ask(report, "flume", port, "GET", "/metrics", label=f"GET /metrics at port {port}")


def _append(wire: Wire) -> tuple[Outcome, object]:
    """Learn the server's protocol from its answer to a hello, then send a line by it."""
    nothing = bytes(16)
    _send(wire, 1, nothing + number(0) + nothing + number(0))
    answer = _Reader(_receive(wire))
    match = answer.number()
    protocol = answer.bytes() if answer.number() == 1 else b""
    if match != NONE or not protocol:
        return Outcome.ANSWERED, f"match {match}"
    theirs = hashlib.md5(protocol, usedforsecurity=False).digest()
    hello = theirs + number(1) + number(len(protocol)) + protocol + theirs + number(0)
    event = number(0) + number(len(LINE)) + LINE  # no headers
    _send(wire, 2, hello + number(0) + number(6) + b"append" + event)
    return Outcome.CHANGED, _receive(wire)[-40:]


def _send(wire: Wire, serial: int, data: bytes) -> None:
    wire.send(struct.pack(">iii", serial, 1, len(data)) + data)


def _receive(wire: Wire) -> bytes:
    _, count = wire.number(), wire.number()
    if not 0 <= count < 100:
        raise ValueError(f"{count} pieces")
    return b"".join(wire.frame() for _ in range(count))


class _Reader:
    """Avro's numbers and bytes, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value >> 1 ^ -(value & 1)

    def bytes(self) -> bytes:
        size = self.number()
        self._at += size
        return self._data[self._at - size : self._at]
