"""Lets log-ins reach an identity provider or a directory from the instance's own network, and nothing else.

``python -m sluice.stack.networking.outward FOLDER HOST:PORT ...`` runs in the host's network. Each target has
a unix socket in that folder, which only the platform's user can open; whoever connects to it is connected to
the target. TLS goes through unopened: it is the API server that checks the certificate.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from sluice.runtime.login_settings import Target
from sluice.runtime.parent import end_with_parent
from sluice.runtime.settings import Settings
from sluice.stack.networking import network

#: Connections to a target at a time.
MOST = 32
CONNECT_SECONDS, IDLE_SECONDS = 10.0, 60.0
CHUNK = 1 << 16


def way(settings: Settings, target: Target) -> Path | None:
    """The unix socket that leads to the target; None if the API server reaches it itself."""
    return socket_of(network.folder(settings), target) if settings.private else None


def socket_of(folder: Path, target: Target) -> Path:
    """Where the target's socket is. Its name is short, because the path of a socket is."""
    host, port = target
    return folder / f"out-{hashlib.sha256(f'{host}:{port}'.encode()).hexdigest()[:12]}"


async def relay(folder: Path, targets: Sequence[Target]) -> None:
    """Serve the targets for ever."""
    before = os.umask(0o177)
    try:
        for target in targets:
            path = socket_of(folder, target)
            path.unlink(missing_ok=True)
            serve = functools.partial(_serve, target, asyncio.Semaphore(MOST))
            await asyncio.start_unix_server(serve, path)
    finally:
        os.umask(before)
    await asyncio.Event().wait()


async def _serve(
    target: Target, free: asyncio.Semaphore, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Join the connection with one to the target, until one side is done."""
    ends = [writer]
    try:
        async with free:
            async with asyncio.timeout(CONNECT_SECONDS):
                there, out = await asyncio.open_connection(*target)
            ends.append(out)
            ways = [asyncio.create_task(_pump(reader, out)), asyncio.create_task(_pump(there, writer))]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for each in ways:
                each.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
    except OSError as error:  # TimeoutError is one
        print(f"outward: {target[0]}:{target[1]}: {type(error).__name__} {error}", flush=True)
    finally:
        for end in ends:
            with contextlib.suppress(OSError):
                end.close()


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while True:
        async with asyncio.timeout(IDLE_SECONDS):
            data = await source.read(CHUNK)
            if not data:
                return
            target.write(data)
            await target.drain()


if __name__ == "__main__":
    end_with_parent()
    given = [each.rpartition(":") for each in sys.argv[2:]]
    asyncio.run(relay(Path(sys.argv[1]), [(host, int(port)) for host, _, port in given]))
