"""A connection's source: the user who made it, whatever address it shows."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from sluice.runtime import namespace
from sluice.stack.networking.connection_source import look_from_here, source_of

NOBODY = 65534


@pytest.fixture(params=["127.0.0.1", "::1"])
def listening(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    with socket.create_server((request.param, 0), family=family) as listening:
        yield listening


def test_a_local_connection_is_its_users(listening: socket.socket) -> None:
    with socket.create_connection(listening.getsockname()[:2]):
        connection, peer = listening.accept()
        with connection:
            assert source_of(peer, listening.getsockname()[1]) == f"uid:{os.getuid()}"


def test_another_loopback_address_hides_nobody() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        for source in ("127.0.0.2", "127.9.9.9"):
            with socket.create_connection(listening.getsockname(), source_address=(source, 0)):
                connection, peer = listening.accept()
                with connection:
                    assert (peer[0], source_of(peer, listening.getsockname()[1])) == (
                        source,
                        f"uid:{os.getuid()}",
                    )


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_users_connection_is_theirs(listening: socket.socket) -> None:
    script = "import socket, sys; it = socket.create_connection((sys.argv[1], int(sys.argv[2]))); input()"
    address, port = listening.getsockname()[:2]
    argv = ["/usr/bin/python3", "-c", script, address, str(port)]
    with subprocess.Popen(argv, user=NOBODY, group=NOBODY, extra_groups=[], stdin=subprocess.PIPE) as process:
        connection, peer = listening.accept()
        with connection:
            assert source_of(peer, port) == f"uid:{NOBODY}"
        process.communicate(b"\n")


def test_a_closed_end_is_not_taken_for_root(listening: socket.socket) -> None:
    address, port = listening.getsockname()[:2]
    with socket.create_connection((address, port)):
        connection, peer = listening.accept()
    with connection:
        assert source_of(peer, port) == ("::1/128" if ":" in address else "127.0.0.1")


def test_other_machines_are_known_by_address() -> None:
    assert source_of(("192.0.2.7", 4000), 1) == "192.0.2.7"
    assert source_of(("::ffff:192.0.2.7", 4000, 0, 0), 1) == "192.0.2.7"
    assert source_of(("2001:db8::7", 4000, 0, 0), 1) == source_of(("2001:db8::8", 1, 0, 0), 1)
    assert source_of(("fe80::1%eth0", 4000, 0, 2), 1) == "fe80::/64"


@pytest.mark.slow
@pytest.mark.skipif(not namespace.possible(), reason="this user may make no network of its own here")
def test_it_looks_from_where_it_began(listening: socket.socket) -> None:
    """As the process that relays the doors: it listens outside, and is inside."""
    script = """
import os, socket, sys
from sluice.runtime import namespace
from sluice.stack.networking.connection_source import look_from_here, source_of
look_from_here()
namespace.create()
listening = socket.socket(fileno=int(sys.argv[1]))
_, peer = listening.accept()
print(source_of(peer, listening.getsockname()[1]))
"""
    argv = [sys.executable, "-c", script, str(listening.fileno())]
    with socket.create_connection(listening.getsockname()[:2]):
        found = subprocess.run(
            argv, pass_fds=[listening.fileno()], capture_output=True, text=True, check=True, timeout=30
        )
    assert found.stdout.strip() == f"uid:{os.getuid()}"


def test_looking_again_costs_no_more_files() -> None:
    look_from_here()
    before = len(os.listdir("/proc/self/fd"))
    look_from_here()
    assert len(os.listdir("/proc/self/fd")) == before
