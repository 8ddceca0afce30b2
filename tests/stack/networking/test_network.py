"""A network of the instance's own: closed but for its doors, and repaired when its `gateway` dies."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from pydantic import ValidationError

from sluice.runtime import detached, namespace
from sluice.runtime.settings import Settings
from sluice.stack.networking import network, ports
from sluice.stack.networking.doors import MOST
from sluice_lab.waiting import until
from tests.processes import command_line

BIG = os.urandom(1 << 20) * 8
BACK_SECONDS = 20.0
SLOW = b"slow"

# Answers each connection with what it got, once the client has said all; on every port that is named.
ECHO = """
import gc, socket, socketserver, sys, threading, time
from sluice.runtime import namespace
with namespace.of_process(int(sys.argv[1])) as network:
    namespace.join(network)
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        got = b"".join(iter(lambda: self.request.recv(1 << 16), b""))
        time.sleep(3 if got == b"slow" else 0)
        self.request.sendall(got)
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 100
for port in sys.argv[3:]:
    threading.Thread(target=Server(("127.0.0.1", int(port)), Echo).serve_forever).start()
print("ready", flush=True)
"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """An instance in a directory of its own, with one door."""
    if not namespace.possible():
        pytest.skip("this machine lets this user make no network namespace")
    base = 28_000 + os.getpid() % 40 * 100  # the kernel gives these ports to nobody by itself
    given = {"INSTANCE": "doors", "HOME": str(tmp_path / "doors"), "PORT_BASE": str(base), "DOORS": '["sql"]'}
    for name, value in given.items():
        monkeypatch.setenv(f"SLUICE_{name}", value)
    monkeypatch.delenv(network.MARK, raising=False)  # the tests may be inside another instance's network
    made = Settings()
    yield made
    network.close(made)


@pytest.fixture
def inside(settings: Settings) -> Iterator[subprocess.Popen[bytes]]:
    """An instance that runs: one process in its network, in the place of supervisord and of two daemons."""
    network._open(settings, network.orders(settings))
    listening = [str(settings.port(name)) for name in ("sql", "kafka")]
    argv = [sys.executable, "-c", ECHO, str(network._inside(settings)), f"{settings.home}/conf/", *listening]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as echo:
        assert echo.stdout is not None
        assert echo.stdout.readline() == b"ready\n"
        (settings.home / "run").mkdir(parents=True)
        (settings.home / "run" / "supervisord.pid").write_text(str(echo.pid))
        yield echo
        echo.kill()


def say(settings: Settings, name: str, data: bytes) -> socket.socket:
    """A connection on which all was said that there is to say."""
    connection = socket.create_connection(("127.0.0.1", settings.port(name)), timeout=20)
    connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)
    return connection


def answer(connection: socket.socket) -> bytes:
    with closing(connection):
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def echo(settings: Settings, name: str, data: bytes) -> bytes:
    return answer(say(settings, name, data))


def entered(code: str) -> subprocess.CompletedProcess[str]:
    """Run the code in a process that entered the network first, as each command does."""
    enter = "from sluice.runtime.settings import Settings; from sluice.stack.networking import network; "
    argv = [sys.executable, "-c", f"{enter} network.enter(Settings()); {code}"]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def gateway(settings: Settings) -> psutil.Process:
    record = detached.read(network.GATEWAY, network.folder(settings))
    assert record is not None
    return psutil.Process(record.pid)


def doors(settings: Settings) -> psutil.Process:
    """The gateway's process that relays."""
    (found,) = (
        each for each in gateway(settings).children() if "sluice.stack.networking.doors" in each.cmdline()
    )
    return found


def kill_gateway(settings: Settings) -> None:
    """Kill it and wait for the relaying process, which ends with its parent."""
    relaying = doors(settings)
    gateway(settings).kill()
    relaying.wait(BACK_SECONDS)


def answers(settings: Settings) -> bool:
    try:
        return echo(settings, "sql", b"back") == b"back"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.usefixtures("inside")
def test_a_door_relays_both_ways_until_both_sides_are_done(settings: Settings) -> None:
    assert echo(settings, "sql", BIG) == BIG


@pytest.mark.slow
@pytest.mark.usefixtures("inside")
def test_who_has_said_all_gets_an_answer_that_takes_time(settings: Settings) -> None:
    waiting = [say(settings, "sql", SLOW) for _ in range(10)]
    for _ in range(100):
        assert echo(settings, "sql", b"quick") == b"quick"
    assert [answer(each) for each in waiting] == [SLOW] * 10
    assert "Task was destroyed" not in (network.folder(settings) / "gateway.log").read_text()


@pytest.mark.slow
@pytest.mark.usefixtures("inside")
def test_a_door_has_a_limit_and_gives_places_back(settings: Settings) -> None:
    at = ("127.0.0.1", settings.port("sql"))
    idle = [socket.create_connection(at, timeout=20) for _ in range(MOST)]
    until(lambda: len(doors(settings).net_connections()) >= MOST)
    with pytest.raises(ConnectionResetError):
        echo(settings, "sql", b"one too many")
    for each in idle:
        each.close()
    until(lambda: answers(settings))


@pytest.mark.slow
@pytest.mark.usefixtures("inside")
def test_what_has_no_door_is_not_there(settings: Settings) -> None:
    with pytest.raises(ConnectionRefusedError):
        echo(settings, "kafka", b"x")


@pytest.mark.slow
def test_a_door_without_a_daemon_hangs_up(settings: Settings, inside: subprocess.Popen[bytes]) -> None:
    inside.kill()
    inside.wait()
    with pytest.raises(ConnectionResetError):
        echo(settings, "sql", b"is anybody there?")


@pytest.mark.slow
@pytest.mark.usefixtures("inside")
def test_doors_that_were_killed_open_again_into_the_same_network(settings: Settings) -> None:
    doors(settings).kill()
    until(lambda: answers(settings))


@pytest.mark.slow
@pytest.mark.usefixtures("inside")
def test_a_gateway_that_was_killed_is_started_again_with_its_old_orders(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_gateway(settings)
    monkeypatch.setenv("SLUICE_DOORS", '["sql", "kafka"]')
    assert entered("pass").returncode == 0
    until(lambda: answers(settings))
    with pytest.raises(ConnectionRefusedError):
        echo(settings, "kafka", b"x")


@pytest.mark.slow
@pytest.mark.usefixtures("inside")
def test_doors_that_cannot_open_hinder_no_command(settings: Settings) -> None:
    kill_gateway(settings)
    connect = f"import socket; socket.create_connection(('127.0.0.1', {settings.port('kafka')}))"
    with socket.create_server(("127.0.0.1", settings.port("sql"))):
        done = entered(connect)
    assert done.returncode == 0, done.stderr
    assert "the doors of instance doors are shut: port" in done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("inside")
def test_a_command_runs_inside(settings: Settings) -> None:
    code = f"import socket; socket.create_connection(('127.0.0.1', {settings.port('kafka')}))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 1
    assert entered(code).returncode == 0


@pytest.mark.slow
@pytest.mark.usefixtures("inside")
def test_nobody_opens_doors_from_inside_another_network(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_gateway(settings)
    monkeypatch.setenv(network.MARK, "other")
    with pytest.raises(network.NetworkNotOpened, match="in the network of instance other"):
        network._open(settings, network.orders(settings))


@pytest.mark.slow
@pytest.mark.usefixtures("inside")
def test_other_doors_need_the_instance_stopped(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_DOORS", '["airflow"]')
    with pytest.raises(network.OrdersChanged, match=r"doors: .*sluice down"):
        network.open_and_enter(Settings(), print)


@pytest.mark.slow
@pytest.mark.usefixtures("inside")
def test_orders_that_cannot_be_read_hinder_no_command(settings: Settings) -> None:
    (network.folder(settings) / network.ORDERS).write_text('{"of": "another version"}')
    done = entered("pass")
    assert done.returncode == 0, done.stderr
    assert "the doors of instance doors are shut" in done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("inside")
def test_both_loopback_addresses_lead_to_a_door(settings: Settings) -> None:
    try:
        connection = socket.create_connection(("::1", settings.port("sql")), timeout=20)
    except OSError as error:
        if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            pytest.skip("this machine has no IPv6")
        raise
    connection.close()


@pytest.mark.slow
def test_an_instance_without_doors_has_one_network(settings: Settings) -> None:
    wanted = {**network.orders(settings), "doors": []}
    network._open(settings, wanted)
    before = doors(settings).pid
    time.sleep(2)
    assert doors(settings).pid == before


def test_only_a_process_of_this_user_shows_the_way() -> None:
    sleeping = [sys.executable, "-c", "import time; time.sleep(60)", "/home/conf/"]
    stranger = ["setpriv", "--reuid=65534", "--clear-groups", "sleep", "60", "/home/conf/"]
    with subprocess.Popen(sleeping) as own:
        until(lambda: "/home/conf/" in command_line(psutil.Process(own.pid)), what="it has its arguments")
        with namespace.of_process(own.pid, "/home/conf/") as found:
            assert found is not None
        with namespace.of_process(own.pid, "/other/conf/") as found:
            assert found is None
        own.kill()
    if os.geteuid() == 0:
        with subprocess.Popen(stranger) as other:
            until(lambda: psutil.Process(other.pid).uids().effective != 0)
            with namespace.of_process(other.pid) as found:
                assert found is None
            other.kill()


@pytest.mark.slow
def test_a_taken_door_is_named(settings: Settings) -> None:
    taken = rf"port {settings.port('sql')} \(sql, for a door\)"
    with (
        socket.create_server(("127.0.0.1", settings.port("sql"))),
        pytest.raises(ports.PortInUse, match=taken),
    ):
        network.open_and_enter(settings, print)


def test_a_machine_that_forbids_namespaces_is_told_what_to_do(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespace, "possible", lambda: False)
    with pytest.raises(network.NetworkNotOpened, match=r"SLUICE_NETWORK=host"):
        network.open_and_enter(settings, print)


def test_an_instance_that_does_not_run_has_no_network(settings: Settings) -> None:
    before = os.readlink("/proc/self/ns/net")
    network.enter(settings)
    assert os.readlink("/proc/self/ns/net") == before
    assert not network.folder(settings).exists()


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"bind_host": "0.0.0.0"},  # noqa: S104
        {"hadoop_host": "10.0.0.1"},
        {"external": ["kafka"]},
        {"hosts": {"kafka": "kafka1"}},
        {"spark": {"master": "spark://10.0.0.5:7077"}},
    ],
)
def test_an_instance_that_needs_other_machines_stays_in_the_host_s_network(
    elsewhere: dict[str, object],
) -> None:
    assert Settings(instance="main").private
    assert not Settings(instance="main", **elsewhere).private  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match=next(iter(elsewhere))):
        Settings(instance="main", network="private", **elsewhere)  # type: ignore[arg-type]


def test_a_door_must_be_a_port() -> None:
    with pytest.raises(ValidationError, match=r"doors: 'hive' is no port: the ports are postgres, kafka"):
        Settings(instance="main", doors=("hive",))


def test_notifications_need_a_way_to_their_database() -> None:
    with pytest.raises(ValidationError, match="'postgres' must be a door"):
        Settings(instance="main", doors=("sql",), notifications={"webhook": "http://hook"})  # type: ignore[arg-type]
