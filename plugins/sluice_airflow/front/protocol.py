"""Bounds on a connection before there is a request: how long a head may take, and whose connections stay."""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import get_remote_addr

from sluice.runtime.settings import LOOPBACK, get_settings
from sluice.stack.networking.connection_source import source_of
from sluice.stack.shares import Shares

#: From a connection's begin, or from the first byte of its next request, until a request's head is whole.
HEAD_SECONDS = 10.0
#: Connections at a time. A door lets in fewer; without doors this is all there is.
MOST = 256


@functools.cache
def shares() -> Shares:
    """The places for connections. In a network of its own, who comes from 127.0.0.1 is the platform."""
    return Shares(MOST, own=LOOPBACK if get_settings().private else f"uid:{os.geteuid()}")


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 by h11, which bounds a head and refuses what is ambiguous, with a time for each head."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._deadline: asyncio.TimerHandle | None = None
        self._source = ""
        self._end: Callable[[], None] | None = None  # while the connection has a place

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._take_place(transport):
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._give_place_back()
        self._forget()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._idle():
            self._expect_head()
        super().data_received(data)
        if not self._idle():
            self._forget()

    def _take_place(self, transport: asyncio.Transport) -> bool:
        """Whether there is room for the connection; if not, it is reset."""
        settings = get_settings()
        peer = get_remote_addr(transport) or (LOOPBACK, 0)
        self._source = peer[0] if settings.private else source_of(peer, settings.port("airflow"))
        if not shares().take(self._source, transport.abort):
            transport.abort()
            return False
        self._end = transport.abort
        return True

    def _give_place_back(self) -> None:
        if self._end is not None:
            shares().give_back(self._source, self._end)
            self._end = None

    def _idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _expect_head(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self._late)

    def _late(self) -> None:
        if self._idle() and not self.transport.is_closing():
            self.transport.abort()

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
