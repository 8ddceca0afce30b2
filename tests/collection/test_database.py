"""PostgreSQL of its own, which listens to a job's host: it takes TLS, and nothing without it."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from sluice.collection import certificates, database, hosts
from sluice.collection.enrolment import folder
from sluice.runtime.authority import certificate as authority_of
from sluice.runtime.settings import Settings, make_secret
from sluice.stack import secrets
from sluice.stack.entry import check
from sluice.storage import listener
from sluice.storage.listener import Listener
from tests.waiting import until

pytestmark = pytest.mark.slow

HOST, OTHER = "127.0.1.1", "127.0.1.2"
ENTRY = [sys.executable, "-m", "sluice.stack"]


@dataclass
class Server:
    settings: Settings
    authority: Path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    tmp_path = tmp_path_factory.mktemp("server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        base = min(free.getsockname()[1], 60_000) - 10
    home = tmp_path / "home"
    home.mkdir()
    for secret in secrets.POSTGRES:
        make_secret(home, secret)
    settings = Settings(instance="test", home=home, port_base=base, network="host")
    own = folder(settings, hosts.LOCAL)
    certificates.issue(folder(settings), hosts.LOCAL, "127.0.0.1")
    for name, data in zip(("crt", "key"), certificates.pem(folder(settings), hosts.LOCAL), strict=True):
        (own / name).write_bytes(data)
    found = Listener("127.0.0.1", [f"{HOST}/32"], str(own / "crt"), str(own / "key"), "1")
    listener.write(home, found)
    authority = tmp_path / "authority.crt"
    authority.write_bytes(authority_of(folder(settings)))
    variables = {"HOME": str(home), "INSTANCE": "test", "PORT_BASE": str(base), "NETWORK": "host"}
    environment = {**os.environ, **{f"SLUICE_{name}": value for name, value in variables.items()}}
    with subprocess.Popen([*ENTRY, "run", "postgres"], env=environment) as process:
        ready = lambda: check(settings, "postgres") is None  # noqa: E731
        try:
            until(lambda: process.poll() is not None or ready(), what="PostgreSQL is healthy")
            assert process.poll() is None, "it died"
            subprocess.run([*ENTRY, "health", "postgres"], env=environment, check=True)
            yield Server(settings, authority)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def spoken(settings: Settings) -> str:
    """The version of TLS that PostgreSQL sees on a connection with these settings."""
    engine = sa.create_engine(settings.postgres.url(), poolclass=sa.NullPool)
    with engine.connect() as connection:
        mine = "SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
        return str(connection.scalar(sa.text(mine)))


def answered(settings: Settings, source: str, tls: bool) -> bytes:
    """What PostgreSQL answers to the first packet of a client at that address."""
    address = (settings.postgres.host, settings.postgres.port)
    with socket.create_connection(address, 60, source_address=(source, 0)) as connection:
        if tls:
            connection.sendall(struct.pack("!ii", 8, 80877103))
            return connection.recv(1)
        who = b"user\0sluice\0database\0sluice\0\0"
        connection.sendall(struct.pack("!ii", 8 + len(who), 196608) + who)
        return connection.recv(4096)


def test_a_job_speaks_tls_and_insists_on_the_instance_s_authority(server: Server, tmp_path: Path) -> None:
    there = database.from_elsewhere(server.settings, str(server.authority))
    assert spoken(there) == "TLSv1.3"
    certificates.issue(tmp_path / "theirs", hosts.LOCAL, "127.0.0.1")
    other = tmp_path / "other.crt"
    other.write_bytes(authority_of(tmp_path / "theirs"))
    with pytest.raises(OperationalError, match="certificate verify failed"):
        spoken(database.from_elsewhere(server.settings, str(other)))


def test_without_tls_a_host_is_refused_and_so_is_every_other_address(server: Server) -> None:
    assert answered(server.settings, HOST, tls=True) == b"S"
    refused = answered(server.settings, HOST, tls=False)
    assert b"no pg_hba.conf entry" in refused
    assert b"no encryption" in refused
    assert b"no pg_hba.conf entry" in answered(server.settings, OTHER, tls=False)


def test_a_key_that_postgres_must_own_is_nobody_else_s(server: Server) -> None:
    key = server.settings.home / "data" / "postgres" / "server.key"
    version = key.parent / "PG_VERSION"
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.stat().st_uid == version.stat().st_uid
