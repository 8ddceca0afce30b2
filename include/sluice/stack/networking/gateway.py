"""The process that stays in the host's network, for an instance in one of its own.

``python -m sluice.stack.networking.gateway FOLDER`` follows the orders in that folder (`network.orders`). It
listens on the doors' ports of the host and hands these sockets to a process that relays them
(`sluice.stack.networking.doors`). It also has notifications sent (`sluice.stack.notify`), because webhooks
and mail servers are outside, and lets log-ins reach a provider outside (`sluice.stack.networking.outward`).
These processes are started again when they end. For an instance in the host's network only the second runs.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sluice.runtime import detached, namespace
from sluice.runtime.parent import end_with_parent
from sluice.runtime.settings import LOOPBACK, Settings, given
from sluice.stack import process_groups
from sluice.stack.networking import network

RESTART_SECONDS = 1.0
POLL_SECONDS = 0.1
GRACE_SECONDS = 5.0
#: No memory, no more processes: a start that fails so is tried again.
PASSING = (OSError, subprocess.SubprocessError)


@dataclass
class Child:
    """A module of Sluice that is run as a process, again and again.

    ``command``: its arguments and the open files that it gets; asked before each start.
    """

    module: str
    command: Callable[[], tuple[Sequence[str], Sequence[int]]]
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    started: float = field(default=-RESTART_SECONDS, init=False)

    def keep(self) -> None:
        """Start the process unless it runs, or was started just now."""
        dead = self.process is None or self.process.poll() is not None
        if dead and time.monotonic() - self.started > RESTART_SECONDS:
            self.started = time.monotonic()
            arguments, files = self.command()
            argv = [sys.executable, "-P", "-m", self.module, *arguments]
            # This process has one thread, so the function is safe after the fork.
            bound = functools.partial(end_with_parent, os.getpid())
            self.process = subprocess.Popen(argv, pass_fds=files, preexec_fn=bound)  # noqa: PLW1509

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@dataclass
class Doors:
    """The doors' sockets, and the network into which they lead once it is known."""

    folder: Path
    listening: list[tuple[int, socket.socket]]  # each with its port
    inside: namespace.Handles | None

    def command(self) -> tuple[Sequence[str], Sequence[int]]:
        """How to start the relaying process. A second one must find the network that the first one made."""
        into = self.inside or ()
        for name in (network.READY, network.INSIDE):
            (self.folder / name).unlink(missing_ok=True)
        doors = [f"{port}:{door.fileno()}" for port, door in self.listening]
        files = [*into, *(door.fileno() for _, door in self.listening)]
        return [str(self.folder), ",".join(map(str, into)), *doors], files

    def remember(self, stack: contextlib.ExitStack) -> None:
        """Show the way in once the relaying process is ready, but keep the network first.

        If the process died in between, the next one makes another network, and nobody is in this one yet.
        """
        ready = self.folder / network.READY
        if not ready.exists():
            return
        if self.inside is None:
            process = namespace.of_process(int(ready.read_text()), network.RELAYING)
            self.inside = stack.enter_context(process)
        if self.inside is None:
            ready.unlink()
        else:
            ready.replace(self.folder / network.INSIDE)


def run(folder: Path) -> None:
    """Keep the children alive until SIGTERM."""
    ended: list[int] = []  # the signals that came
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    orders = json.loads((folder / network.ORDERS).read_text())
    for name in given():  # not those of the command that happened to start this
        del os.environ[name]
    os.environ.update(orders["given"], SLUICE_INSTANCE=orders["instance"])
    settings = Settings()
    with contextlib.ExitStack() as stack:
        doors = Doors(folder, [], None)
        children = []
        if orders["private"]:
            for _, port in orders["doors"]:
                doors.listening += [(port, stack.enter_context(each)) for each in listen(port)]
            doors.inside = living(settings, stack)
            children.append(Child(network.RELAYING, doors.command))
            if targets := [f"{host}:{port}" for host, port in orders.get("outward", ())]:
                children.append(Child(network.OUTWARD, lambda: ((str(folder), *targets), ())))
        if orders["notify"]:
            children.append(Child("sluice.stack.notify", lambda: ((), ())))
        for child in children:
            stack.callback(child.stop)
        while not ended:
            try:
                for child in children:
                    child.keep()
                doors.remember(stack)
            except PASSING as error:
                print(f"gateway: {error}", flush=True)
            time.sleep(POLL_SECONDS)


def listen(port: int) -> Iterator[socket.socket]:
    """Listen on the port at the host's loopback addresses: of IPv4, and of IPv6 if the host has it.

    `localhost` may mean either, and another user could listen on the one that is left out.
    """
    for family, address in ((socket.AF_INET, LOOPBACK), (socket.AF_INET6, "::1")):
        try:
            yield socket.create_server((address, port), family=family)
        except OSError as error:
            if family == socket.AF_INET or error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                sys.exit(f"port {port} at {address}: {error.strerror}")


def living(settings: Settings, stack: contextlib.ExitStack) -> namespace.Handles | None:
    """The network in which something of the instance still runs; None if it is this one, or nothing runs."""
    found = stack.enter_context(network.of_supervisor(settings))
    for pid in _left(settings):
        if found is None:
            found = stack.enter_context(namespace.of_process(pid))
    return None if found is None or namespace.here(found) else found


def _left(settings: Settings) -> Iterator[int]:
    """The pids of the daemons and jobs that run, whoever started them."""
    for process in process_groups.of_daemon(settings):
        yield process.pid
    run = settings.home / "run"
    for name in detached.names(run):
        record = detached.read(name, run)
        if record is not None and detached.alive(record):
            yield record.pid


if __name__ == "__main__":
    run(Path(sys.argv[1]))
