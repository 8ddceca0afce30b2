"""Messages pass a socket whole, within a time, and with no more memory than they have bytes."""

from __future__ import annotations

import resource
import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from sluice.metrics.team_messages import BadMessage, Late, TimedSocket, receive, send

LARGE = bytes(range(256)) * 20_000  # more than a socket holds


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


@pytest.mark.parametrize("data", [b"", b"x", LARGE])
def test_they_come_as_they_were_sent(ends: tuple[socket.socket, socket.socket], data: bytes) -> None:
    one, other = ends
    sending = threading.Thread(target=lambda: [send(one, {"n": n}, data) for n in range(3)])
    sending.start()
    within = TimedSocket(other, 60.0)
    assert [receive(within) for _ in range(3)] == [({"n": n}, data) for n in range(3)]
    sending.join()


def test_who_takes_nothing_is_late(ends: tuple[socket.socket, socket.socket]) -> None:
    began = time.monotonic()
    with pytest.raises(Late):
        send(TimedSocket(ends[0], 0.2), {}, LARGE)
    assert 0.2 <= time.monotonic() - began < 5


@pytest.mark.parametrize("part", [b"", struct.pack("!Q", 2), struct.pack("!QQ", 2, 1) + b"{}"])
def test_who_stops_within_a_message_is_late(ends: tuple[socket.socket, socket.socket], part: bytes) -> None:
    ends[1].sendall(part)
    with pytest.raises(Late):
        receive(TimedSocket(ends[0], 0.2))
    ends[1].close()
    with pytest.raises(EOFError):
        receive(TimedSocket(ends[0], 60.0))


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (struct.pack("!QQ", 1 << 60, 1), "a message of 1,152,921,504,606,846,977 bytes came, 10 are allowed"),
        (struct.pack("!QQ", 2, 0) + b"{x", "what came is no message: "),
        (struct.pack("!QQ", 2, 0) + b"\xff\xff", "what came is no message: "),
    ],
)
def test_what_is_none_is_refused(ends: tuple[socket.socket, socket.socket], sent: bytes, said: str) -> None:
    ends[1].sendall(sent)
    with pytest.raises(BadMessage, match=f"^{said}"):
        receive(ends[0], most=10)


def test_one_without_room_is_skipped_and_the_next_one_comes(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    one, other = ends
    large = bytes(300 << 20)
    with open("/proc/self/statm") as statm:
        own = int(statm.read().split()[0]) * resource.getpagesize()

    def sent() -> None:
        send(one, {}, large)
        send(one, {"next": 1})

    sending = threading.Thread(target=sent)
    sending.start()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (own + (250 << 20), before[1]))
    try:
        with pytest.raises(MemoryError):
            receive(other)
        assert receive(other) == ({"next": 1}, b"")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    sending.join()
