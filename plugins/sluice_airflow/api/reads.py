"""Reads of results: a few at a time, in threads of their own, and never on the server's event loop.

A read takes a *place* from its first block to its last byte. Each of its steps is a job of a small pool, so a
client that reads slowly has a place, but no thread.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

import anyio
from starlette.responses import StreamingResponse

from sluice_airflow.cut_off import failed

THREADS = 4
#: Reads that have begun and whose clients have not got everything yet.
PLACES = 8
#: Requests that wait for a place, and for how long each of them does.
WAITING, PATIENCE_SECONDS = 32, 5.0
#: A client that takes nothing for STALL_SECONDS is left.
STALL_SECONDS = 30.0
_LOOK_SECONDS = 0.02

P = ParamSpec("P")
T = TypeVar("T")


class TooManyReaders(RuntimeError):
    """Too many ask at once."""

    def __init__(self, what: str, seconds: int) -> None:
        super().__init__(f"{what}: try again in {seconds} s")
        self.seconds = seconds


class Reads:
    """The places and the threads of all reads."""

    def __init__(
        self,
        threads: int = THREADS,
        places: int = PLACES,
        waiting: int = WAITING,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        self._pool = ThreadPoolExecutor(threads, "results")
        self._free, self._queue = threading.Semaphore(places), threading.Semaphore(waiting)
        self._patience = patience

    async def place(self) -> ReadPermit:
        """A place, as soon as there is one. Raises TooManyReaders."""
        if not self._free.acquire(blocking=False):
            await self._wait()
        return ReadPermit(self._pool, self._free)

    async def _wait(self) -> None:
        if not self._queue.acquire(blocking=False):
            raise TooManyReaders("too many answers are being read", 5)
        try:
            deadline = time.monotonic() + self._patience
            while not self._free.acquire(blocking=False):
                if time.monotonic() > deadline:
                    raise TooManyReaders("too many answers are being read", 5)
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            self._queue.release()


class ReadPermit:
    """The right to read; whoever has it must leave it."""

    def __init__(self, pool: ThreadPoolExecutor, free: threading.Semaphore) -> None:
        self._pool, self._free = pool, free
        self._running: Future[Any] | None = None

    async def run(self, step: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Run a step in a thread; a place runs one at a time."""
        running = self._pool.submit(step, *args, **options)
        self._running = running
        return await asyncio.wrap_future(running)

    def leave(self, last: Callable[[], object] = lambda: None) -> None:
        """Free the place, once the step that still runs has ended and then `last` was run."""

        def end() -> None:
            try:
                last()
            finally:
                self._free.release()

        def ended(_: object) -> None:
            self._pool.submit(end)

        if self._running is None:
            ended(None)
        else:
            self._running.add_done_callback(ended)


class Streamed(StreamingResponse):
    """An answer that begins with the pieces `held`; it gives its place back at its end, however it ends."""

    def __init__(
        self,
        held: Iterable[bytes],
        rest: Generator[bytes],
        place: ReadPermit,
        headers: Mapping[str, str],
        stall: float = STALL_SECONDS,
    ) -> None:
        super().__init__(self._pieces(held), headers=headers)
        self._rest, self._place, self._stall = rest, place, stall

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def timely(message: Any) -> None:
            with anyio.fail_after(self._stall):
                await send(message)

        try:
            await super().__call__(scope, receive, timely)
        except Exception as error:
            failed(scope, error)
            raise
        finally:
            self._place.leave(self._rest.close)

    async def _pieces(self, held: Iterable[bytes]) -> Any:
        for first in held:
            yield first
        while (piece := await self._place.run(self._next)) is not None:
            yield piece

    def _next(self) -> bytes | None:
        return next(self._rest, None)
