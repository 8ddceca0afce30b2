"""One poll of the database for all who listen, as long as anyone does."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable

from sluice.runtime.backoff import Backoff
from sluice.storage.tables.news import NewsSnapshot
from sluice_airflow.api.reads import TooManyReaders

log = logging.getLogger(__name__)

#: Between two polls. Commits are made about as often.
POLL_SECONDS = 1.0
LONGEST_SECONDS = 30.0
#: Listeners at a time. A door of the instance's network has 64 connections.
MOST = 32
HEARTBEAT_SECONDS = 15.0
#: When to ask again for a place.
AGAIN_SECONDS = 15


def server_stops() -> bool:
    """Whether uvicorn was told to stop: it waits for open answers, and a listener's has no end."""
    server = getattr(signal.getsignal(signal.SIGTERM), "__self__", None)
    return bool(getattr(server, "should_exit", False))


class Hub:
    """The listeners of one server; used in its event loop.

    look: asks the database what is new; it is called in a thread, one call at a time.
    """

    def __init__(
        self,
        look: Callable[[], NewsSnapshot],
        seconds: float = POLL_SECONDS,
        most: int = MOST,
        stops: Callable[[], bool] = server_stops,
    ) -> None:
        self._look, self._seconds, self._most, self._stops = look, seconds, most, stops
        self._listening: set[asyncio.Event] = set()
        self._newest: NewsSnapshot | None = None
        self._polling: asyncio.Task[None] | None = None

    def join(self) -> asyncio.Event:
        """Become a listener; who does must leave. Raises TooManyReaders."""
        if len(self._listening) >= self._most:
            raise TooManyReaders(f"{self._most} listen already", AGAIN_SECONDS)
        woken = asyncio.Event()
        self._listening.add(woken)
        if self._newest is not None:
            woken.set()
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll())
        return woken

    def leave(self, woken: asyncio.Event) -> None:
        """Stop listening; without listeners there are no polls."""
        self._listening.discard(woken)
        if not self._listening and self._polling is not None:
            self._polling.cancel()
            self._polling, self._newest = None, None

    async def looks(self, woken: asyncio.Event, heartbeat: float) -> AsyncIterator[NewsSnapshot | None]:
        """What is new, whenever something is; None after every `heartbeat` seconds without news.

        It ends when the server stops.
        """
        while not self._stops():
            try:
                async with asyncio.timeout(heartbeat):
                    await woken.wait()
            except TimeoutError:
                yield None
                continue
            woken.clear()
            if self._newest is not None:
                yield self._newest

    async def _poll(self) -> None:
        away = Backoff(self._seconds, LONGEST_SECONDS)
        while True:
            stops, pause = self._stops(), self._seconds
            try:
                found = await asyncio.to_thread(self._look)
            except Exception as error:
                pause = away.pause()
                log.warning("what is new could not be read: %s", error)
            else:
                away.reset()
                if found != self._newest:
                    self._newest = found
                    self._wake()
            if stops:
                self._wake()
            await asyncio.sleep(pause)

    def _wake(self) -> None:
        for woken in self._listening:
            woken.set()
