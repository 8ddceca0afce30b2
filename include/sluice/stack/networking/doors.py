"""Relays connections from the host's network into the instance's.

``python -m sluice.stack.networking.doors FOLDER NETWORK PORT:FD ...``: each FD is a socket that listens on
the host's PORT. A socket stays in the network in which it was made. So this process can accept connections
from outside although it is itself inside, and connect there to the same port, from the address that stands
for the source (`sluice.stack.networking.loopback`). NETWORK is two open files of the network to enter, as
``FD,FD``; if it is empty, this process makes the network.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

from sluice.runtime import namespace
from sluice.runtime.files import write_whole
from sluice.runtime.parent import end_with_parent
from sluice.runtime.settings import LOOPBACK
from sluice.stack.networking import network
from sluice.stack.networking.connection_source import look_from_here, source_of
from sluice.stack.networking.loopback import Addresses
from sluice.stack.shares import Shares

CHUNK = 1 << 18
BACKLOG = 256
#: Connections of a door at a time: PostgreSQL has this many beside what the platform needs.
MOST = 64
CLOSE_SECONDS = 10.0


async def relay(doors: Sequence[tuple[int, socket.socket]], addresses: Addresses) -> None:
    """Serve the doors for ever; each is a port and a socket that listens for it."""
    serving = {port: Door(port, addresses) for port, _ in doors}
    for port, listening in doors:
        await asyncio.start_server(serving[port], sock=listening, limit=CHUNK, backlog=BACKLOG)
    await asyncio.Event().wait()


class Door:
    """Serves the connections of one port."""

    def __init__(self, port: int, addresses: Addresses) -> None:
        self.port, self.addresses = port, addresses
        self.shares = Shares(MOST, own=f"uid:{os.geteuid()}")
        self.open: set[asyncio.Task[None] | None] = set()  # asyncio itself may forget a task that waits

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Join a connection from outside with one to the daemon inside, until both sides are done."""
        peer = writer.get_extra_info("peername") or (LOOPBACK, 0)  # it is gone already
        source = source_of(peer, self.port)
        ends = [writer]

        def end() -> None:
            for each in ends:
                _break_off(each)

        if not self.shares.take(source, end):
            end()
            return
        self.open.add(asyncio.current_task())
        try:
            daemon_reader, daemon_writer = await asyncio.open_connection(
                LOOPBACK, self.port, limit=CHUNK, local_addr=(self.addresses.of(source), 0)
            )
            ends.append(daemon_writer)
            async with asyncio.TaskGroup() as both:  # if one way breaks, so does the other
                both.create_task(_pump(reader, daemon_writer))
                both.create_task(_pump(daemon_reader, writer))
            for each in ends:
                each.close()
                await asyncio.wait_for(each.wait_closed(), CLOSE_SECONDS)
        except* OSError:
            pass  # a side that broke off, or a daemon that is not there
        finally:
            end()  # harmless once they are closed
            self.shares.give_back(source, end)
            self.open.discard(asyncio.current_task())


def _break_off(end: asyncio.StreamWriter) -> None:
    """Reset the connection: where one side broke off, what the other has must not look whole."""
    with contextlib.suppress(OSError):  # it may be closed
        connection = end.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.transport.abort()


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(CHUNK):
        target.write(data)
        await target.drain()
    target.write_eof()


def main(folder: Path, into: str, doors: list[str]) -> None:
    look_from_here()  # sources are in the host's network
    if into:
        user, net = map(int, into.split(","))
        namespace.join((user, net))
    else:
        namespace.create()
    end_with_parent()  # again, because a change of rights may take the order back
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    listening = [
        (int(port), socket.socket(fileno=int(fd))) for port, fd in (each.split(":") for each in doors)
    ]
    write_whole(folder / network.READY, str(os.getpid()))
    asyncio.run(relay(listening, Addresses(folder)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
