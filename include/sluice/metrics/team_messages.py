"""Messages between whoever asks and a process that runs a team's code: each is a head and some data.

The data is not copied on its way, so a process needs no more memory for it than its size.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

Head = dict[str, Any]
Moved = TypeVar("Moved")

_SIZES = struct.Struct("!QQ")
#: Time passes in steps, so that a stop of both processes is no time of the metric's.
STEP_SECONDS = 0.5
#: What has no room is skipped in parts of this size.
_SKIPPED = 1 << 16


class BadMessage(ValueError):
    """What came is no message, or a larger one than is allowed."""


class Late(Exception):
    """The other side did not send or take a message in time."""


class MessageSocket(Protocol):
    """What messages need of a socket."""

    def send(self, data: memoryview, /) -> int: ...

    def recv_into(self, room: memoryview, /) -> int: ...


class TimedSocket:
    """A socket for one message there and one back, within `seconds`."""

    def __init__(self, own: socket.socket, seconds: float) -> None:
        self._own, self._left = own, seconds

    def send(self, data: memoryview, /) -> int:
        return self._in_steps(lambda: self._own.send(data))

    def recv_into(self, room: memoryview, /) -> int:
        return self._in_steps(lambda: self._own.recv_into(room))

    def _in_steps(self, move: Callable[[], Moved]) -> Moved:
        while self._left > 0:
            self._own.settimeout(min(self._left, STEP_SECONDS))
            began = time.monotonic()
            try:
                return move()
            except TimeoutError:
                continue
            finally:
                self._left -= min(time.monotonic() - began, 2 * STEP_SECONDS)
        raise Late


def send(to: MessageSocket, head: Head, data: Any = b"") -> None:
    """Send a message; `data` is a buffer of bytes. Raises OSError, and what the socket raises."""
    words, body = json.dumps(head).encode(), memoryview(data)
    for part in (memoryview(_SIZES.pack(len(words), len(body)) + words), body):
        left = part
        while len(left):
            left = left[to.send(left) :]


def receive(of: MessageSocket, most: int | None = None) -> tuple[Head, bytearray]:
    """The next message, of at most `most` bytes.

    Raises EOFError if the other side is gone, BadMessage, MemoryError if it has no room (the message is gone
    then, and the next one can be received), OSError, and what the socket raises.
    """
    words, size = _SIZES.unpack(_read(of, _SIZES.size))
    if most is not None and words + size > most:
        raise BadMessage(f"a message of {words + size:,} bytes came, {most:,} are allowed")
    head, data = _read(of, words, size), _read(of, size)
    try:
        return json.loads(head), data
    except ValueError as error:
        raise BadMessage(f"what came is no message: {error}") from error


def _read(of: MessageSocket, size: int, after: int = 0) -> bytearray:
    """The next `size` bytes. If there is no room for them, they and `after` more are skipped."""
    try:
        found = bytearray(size)
    except MemoryError:
        _skip(of, size + after)
        raise
    _fill(of, memoryview(found))
    return found


def _skip(of: MessageSocket, size: int) -> None:
    room = memoryview(bytearray(_SKIPPED))
    while size:
        part = room[: min(size, _SKIPPED)]
        _fill(of, part)
        size -= len(part)


def _fill(of: MessageSocket, room: memoryview) -> None:
    while len(room):
        if not (came := of.recv_into(room)):
            raise EOFError
        room = room[came:]
