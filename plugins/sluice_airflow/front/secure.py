"""The same over TLS: a connection has its place and its time from before the handshake on."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from sluice_airflow.front.protocol import HEAD_SECONDS, BoundedProtocol

#: The first byte of a client's hello.
HANDSHAKE = b"\x16"
SHUTDOWN_SECONDS = 2.0
_SAID = b"This port speaks TLS: begin the address with https://\n"
#: What somebody gets who does not speak TLS. It names no address: whatever the request says is a stranger's.
PLAIN = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    b"Cache-Control: no-store\r\nContent-Length: %d\r\n\r\n%s" % (len(_SAID), _SAID)
)


class SecureProtocol(BoundedProtocol):
    """HTTP over TLS. context: the server's side, for the next connection.

    uvicorn's own TLS would tell a protocol of a connection only after its handshake, so that strangers could
    have any number that never end theirs. The loop must be asyncio's: uvloop's reads on after a pause.
    """

    def __init__(self, *args: Any, context: Callable[[], ssl.SSLContext], **options: Any) -> None:
        super().__init__(*args, **options)
        self._context = context
        self._peeked: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None
        self._early: bytearray | None = bytearray()  # what comes with the handshake's end; None: it is over
        self._plain = False  # the client speaks no TLS, and was told so

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        if not self._take_place(transport):
            return
        self._expect_head()
        transport.pause_reading()
        raw = transport.get_extra_info("socket")
        self._peeked = socket.socket(fileno=socket.dup(raw.fileno()))
        self.loop.add_reader(self._peeked.fileno(), self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_looking()
        if self._early is None:
            super().connection_lost(exc)
        else:
            self._give_place_back()
            self._forget()

    def data_received(self, data: bytes) -> None:
        if self._early is None:
            super().data_received(data)
        elif not self._plain:
            self._early += data

    def _look(self) -> None:
        """Find out by the first byte, which stays where it is, whether the client speaks TLS."""
        if self._peeked is None:
            return
        try:
            first = self._peeked.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            first = b""
        self._stop_looking()
        if first == HANDSHAKE:
            self._task = self.loop.create_task(self._secure())
        elif first:
            self._plain = True
            self.transport.write(PLAIN)
            self.transport.resume_reading()  # what is not read would reset the connection, answer and all
            self.transport.write_eof()
        else:
            self.transport.abort()

    def _stop_looking(self) -> None:
        if self._peeked is not None:
            self.loop.remove_reader(self._peeked.fileno())
            self._peeked.close()
            self._peeked = None

    async def _secure(self) -> None:
        raw, secured = self.transport, None
        with contextlib.suppress(OSError):  # ssl.SSLError is one, and so is a client that went away
            secured = await self.loop.start_tls(
                raw,
                self,
                self._context(),
                server_side=True,
                ssl_handshake_timeout=HEAD_SECONDS,
                ssl_shutdown_timeout=SHUTDOWN_SECONDS,
            )
        if secured is None or raw.is_closing():
            raw.abort()
            self.connection_lost(None)  # nobody else says so before the handshake is over
            return
        H11Protocol.connection_made(self, secured)
        early, self._early = self._early, None
        if early:
            self.data_received(bytes(early))
