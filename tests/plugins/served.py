"""An application behind a real server on a port of its own: what no test client shows, such as streams."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from sluice_lab.waiting import until


class Server(uvicorn.Server):
    """Looks more often than ten times a second whether it is to stop."""

    async def main_loop(self) -> None:
        await self.on_tick(0)
        while not self.should_exit:
            await asyncio.sleep(0.01)


@contextmanager
def served(app: Any, **options: Any) -> Iterator[str]:
    """The address of the app, as long as the context lasts. options: more of uvicorn's."""
    config = uvicorn.Config(app, port=0, log_level="critical", timeout_graceful_shutdown=5, **options)
    server = Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until(lambda: server.started or not thread.is_alive(), poll=0.01)
    assert server.started
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(20)
    assert not thread.is_alive(), "a request never ended"
