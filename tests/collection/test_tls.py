"""A real edge and a real collector, over TLS: who shows no certificate of the instance is refused.

Kafka is not needed: what the collector took is in its channel.
"""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

from sluice.collection import deploy, lifecycle
from sluice.collection.metrics import AgentCounters, MetricsUnreachable
from sluice.runtime.settings import Settings, make_secret
from sluice_hosts.trust import certificates, enrolment
from sluice_lab.ports import free_ports
from sluice_lab.waiting import until
from tests.hosts.laid_down import lay_down

pytestmark = pytest.mark.slow

SECONDS = 120.0
ADDRESS, OTHER_ADDRESS = "127.0.0.1", "127.0.1.2"
HOSTS = """
- {{name: local, address: {address}}}
- {{name: h1, address: 127.0.1.1, ssh: {{user: me}}}}
"""
INVENTORY = """
topic: logs
front_ends:
  - {{host: web1, metrics_port: {edge}, files: ["{{home}}/log/access.%Y-%m-%d.log"]}}
  - {{host: far1, runs_on: h1, channel: file, files: ["/log/access.%Y-%m-%d.log"]}}
collectors:
  - {{name: collector1, port: {port}, metrics_port: {metrics}}}
"""


@pytest.fixture
def port(settings: Settings, tmp_path: Path) -> Iterator[int]:
    """Where a collector listens; edge web1 is laid down and not started."""
    edge, port, metrics = free_ports(3, ADDRESS)
    (settings.home / "collection.yaml").write_text(INVENTORY.format(edge=edge, port=port, metrics=metrics))
    for folder in ("log", "logs"):
        (settings.home / folder).mkdir()
    make_secret(settings.home, "identity")
    authority = settings.home / "hosts"
    certificates.issue(authority, "h1", "127.0.1.1")
    found = enrolment.Enrolled("127.0.1.1", "ssh-ed25519 AAAA", "/home/me/.sluice/test", "java")
    (authority / "h1" / "enrolled.json").write_text(json.dumps(asdict(found)))
    try:
        start_collector(settings, ADDRESS)
        yield port
    finally:
        for name in ("web1", "collector1"):
            lifecycle.stop(settings, deploy.agent(settings, name), print, drain=False)


def start_collector(settings: Settings, address: str) -> None:
    """Start the collector at this address of this machine."""
    (settings.home / "hosts.yaml").write_text(HOSTS.format(address=address))
    certificates.issue(settings.home / "hosts", "local", address)
    (settings.home / "hosts" / "local" / "address").write_text(address)
    lay_down(settings)
    collector = deploy.agent(settings, "collector1")
    lifecycle.start(settings, collector, print)
    lifecycle.await_ready(settings, [collector])


def counters(settings: Settings, name: str) -> AgentCounters:
    """The agent's, once it answers: on a busy machine that may take longer than the platform waits."""

    def answer() -> AgentCounters | None:
        with suppress(MetricsUnreachable):
            return lifecycle.counters(settings, deploy.agent(settings, name))
        return None

    found = until(answer, what=f"{name} answers")
    assert found
    return found


def failures(settings: Settings) -> int:
    """How often a sink of edge web1 failed."""
    sinks = counters(settings, "web1").sinks
    return int(
        sum(sink.get("EventWriteFail", 0) + sink.get("ConnectionFailedCount", 0) for sink in sinks.values())
    )


def taken(settings: Settings) -> float:
    """How many blocks the collector took."""
    return counters(settings, "collector1").channel.get("EventPutSuccessCount", 0)


def context(tmp_path: Path, folder: Path | None, trust: Path) -> ssl.SSLContext:
    """A client that shows the certificate of that folder, if any, and trusts the authority of `trust`."""
    authority = pkcs12.load_pkcs12((trust / certificates.IDENTITY).read_bytes(), certificates.PASSWORD)
    pem = authority.additional_certs[0].certificate.public_bytes(Encoding.PEM).decode()
    made = ssl.create_default_context(cadata=pem)
    if folder is not None:
        own = pkcs12.load_pkcs12((folder / certificates.IDENTITY).read_bytes(), certificates.PASSWORD)
        assert own.key is not None
        assert own.cert is not None
        path = tmp_path / "shown.pem"
        path.write_bytes(
            own.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            + own.cert.certificate.public_bytes(Encoding.PEM)
        )
        made.load_cert_chain(path)
    return made


def is_let_in(made: ssl.SSLContext, port: int, seconds: float = SECONDS) -> bool:
    """Whether the collector keeps the connection after the handshake: it waits for the first request."""
    with socket.create_connection((ADDRESS, port), SECONDS) as plain:
        try:
            with made.wrap_socket(plain, server_hostname=ADDRESS) as connection:
                connection.settimeout(seconds)
                connection.recv(1)  # nothing comes, or the end
        except TimeoutError:
            return True
        except (ssl.SSLError, ConnectionError):
            return False
        return False


def test_a_line_comes_unless_the_collector_is_held_and_strangers_are_refused(
    settings: Settings, port: int, tmp_path: Path
) -> None:
    own = settings.home / "hosts"
    stranger = tmp_path / "stranger"
    certificates.issue(stranger, "h1", "127.0.1.1")
    assert is_let_in(context(tmp_path, own / "h1", own / "local"), port, seconds=3.0)
    assert not is_let_in(context(tmp_path, None, own / "local"), port)
    assert not is_let_in(context(tmp_path, stranger / "h1", own / "local"), port)

    edge = deploy.agent(settings, "web1")
    lifecycle.start(settings, edge, print)
    lifecycle.await_ready(settings, [edge])
    (settings.home / "log" / "access.2026-01-01.log").write_text("a line\n")
    until(lambda: taken(settings) == 1)
    assert (settings.home / "flume" / "web1" / "collectors").read_text() == f"collector1={ADDRESS}\n"

    hold = settings.home / "flume" / "collector1" / "hold"
    hold.touch()
    with (settings.home / "log" / "access.2026-01-01.log").open("a") as log:
        log.write("another line\n")
    until(lambda: failures(settings) > 0)
    assert taken(settings) == 1
    hold.unlink()
    until(lambda: taken(settings) == 2)


def test_an_idle_edge_finds_a_collector_at_another_address_without_a_failure(
    settings: Settings, port: int
) -> None:
    edge, collector = (deploy.agent(settings, name) for name in ("web1", "collector1"))
    lifecycle.start(settings, edge, print)
    lifecycle.await_ready(settings, [edge])
    log = settings.home / "log" / "access.2026-01-01.log"
    log.write_text("a line\n")
    until(lambda: taken(settings) == 1)

    lifecycle.stop(settings, collector, print, drain=False)
    start_collector(settings, OTHER_ADDRESS)
    assert lifecycle.settled(settings, edge)
    with log.open("a") as more:
        more.write("another line\n")
    until(lambda: taken(settings) == 1)  # it counts from its start
    assert failures(settings) == 0
