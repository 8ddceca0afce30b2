"""The one way out of an instance's own network, for log-ins: to the named targets, for nobody else."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sluice.runtime import namespace
from sluice.runtime.settings import Settings
from sluice.stack.networking import network, outward
from sluice_lab.waiting import until

pytestmark = pytest.mark.slow

# In the instance's network: whether the target is reached by itself, and what it answers by the socket.
ASK = """
import socket, sys
from sluice.runtime import namespace
with namespace.of_process(int(sys.argv[1])) as network:
    namespace.join(network)
try:
    socket.create_connection(("127.0.0.1", int(sys.argv[2])), 2).close()
    print("reached")
except OSError:
    print("closed")
way = socket.socket(socket.AF_UNIX)
way.connect(sys.argv[3])
way.sendall(b"hello")
print(way.recv(99).decode())
"""


@pytest.fixture
def target() -> Iterator[int]:
    """The port of a server on the host that says of each connection what it got."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                connection.sendall(b"heard " + connection.recv(99))

    threading.Thread(target=serve, daemon=True).start()
    yield int(listening.getsockname()[1])
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()


@pytest.fixture
def relaying(tmp_path: Path, target: int) -> Iterator[Path]:
    """A folder in which the sockets of `target`, and of a target that is not there, are served."""
    argv = [
        sys.executable,
        "-m",
        "sluice.stack.networking.outward",
        tmp_path,
        f"127.0.0.1:{target}",
        "127.0.0.1:1",
    ]
    with subprocess.Popen(argv) as running:
        until(lambda: len(list(tmp_path.iterdir())) == 2)
        yield tmp_path
        running.kill()


def said(path: Path, text: bytes = b"hello") -> bytes:
    with closing(socket.socket(socket.AF_UNIX)) as way:
        way.settimeout(20)
        try:
            way.connect(str(path))
            way.sendall(text)
            return b"".join(iter(lambda: way.recv(99), b""))
        except (BrokenPipeError, ConnectionResetError):
            return b""


def test_it_leads_to_the_target_and_only_the_owner_may_go(relaying: Path, target: int) -> None:
    way = outward.socket_of(relaying, ("127.0.0.1", target))
    assert [said(way) for _ in range(3)] == [b"heard hello"] * 3
    assert stat.S_IMODE(way.stat().st_mode) == 0o600


def test_a_target_that_is_not_there_ends_the_connection(relaying: Path, target: int) -> None:
    assert said(outward.socket_of(relaying, ("127.0.0.1", 1))) == b""
    assert said(outward.socket_of(relaying, ("127.0.0.1", target))) == b"heard hello"


@pytest.fixture
def private(tmp_path: Path, target: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    if not namespace.possible():
        pytest.skip("this machine lets this user make no network namespace")
    base = 28_000 + (os.getpid() + 7) % 40 * 100  # the kernel gives these ports to nobody by itself
    ldap = {"url": f"ldap://127.0.0.1:{target}", "user_base": "dc=x", "roles": {"op": ["x"]}}
    given = {"INSTANCE": "outward", "HOME": str(tmp_path / "outward"), "PORT_BASE": str(base), "DOORS": "[]"}
    for name, value in {**given, "LOGIN": json.dumps({"ldap": ldap})}.items():
        monkeypatch.setenv(f"SLUICE_{name}", value)
    monkeypatch.delenv(network.MARK, raising=False)  # the tests may be inside another instance's network
    made = Settings()
    yield made
    network.close(made)


def test_an_instance_reaches_its_target_by_the_gateway_alone(private: Settings, target: int) -> None:
    network._open(private, network.orders(private))
    way = outward.way(private, ("127.0.0.1", target))
    assert way is not None
    until(way.exists)
    argv = [sys.executable, "-c", ASK, str(network._inside(private)), str(target), str(way)]
    assert subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split("\n")[:2] == [
        "closed",
        "heard hello",
    ]


def test_other_targets_need_another_start(private: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    network._open(private, network.orders(private))
    network._compare(private)
    monkeypatch.delenv("SLUICE_LOGIN")
    with pytest.raises(network.OrdersChanged, match="login"):
        network._compare(Settings())


def test_in_the_host_s_network_there_is_no_detour(private: Settings) -> None:
    assert outward.way(private.model_copy(update={"network": "host"}), ("id.example.org", 443)) is None
