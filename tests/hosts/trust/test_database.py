"""PostgreSQL of its own, for a job's host and with TLS at the doors: it takes TLS, and nothing without it."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import create_async_engine

from sluice.runtime.authority import certificate as authority_of
from sluice.runtime.settings import Settings, make_secret
from sluice.speed.state_pass import Connections
from sluice.stack import secrets
from sluice.stack.airflow.configuration import for_asyncpg
from sluice.stack.entry import check
from sluice.storage import listener
from sluice.storage.listener import DatabaseListener
from sluice.storage.postgres import engine_at
from sluice_hosts.trust import database
from sluice_hosts.trust.enrolment import folder
from sluice_lab.ports import port_base
from sluice_lab.waiting import until
from tests.loops import run

pytestmark = pytest.mark.slow

HOST, OTHER = "127.0.1.1", "127.0.1.2"
MINE = sa.text("SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
ENTRY = [sys.executable, "-m", "sluice.stack"]


@dataclass
class Server:
    settings: Settings
    authority: Path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """It listens to a host."""
    tmp_path = tmp_path_factory.mktemp("server")
    (tmp_path / "home" / "hosts").mkdir(parents=True)
    listener.write(tmp_path / "home", DatabaseListener("127.0.0.1", [f"{HOST}/32"]))
    with started(tmp_path, "off") as made:
        yield made


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """It speaks TLS at its door."""
    tmp_path = tmp_path_factory.mktemp("door")
    (tmp_path / "home").mkdir()
    with started(tmp_path, "on") as made:
        yield made


@contextmanager
def started(tmp_path: Path, tls: str) -> Iterator[Server]:
    base = port_base()
    home = tmp_path / "home"
    for secret in secrets.POSTGRES:
        make_secret(home, secret)
    settings = Settings(instance="test", home=home, port_base=base, network="host", tls={"mode": tls})
    authority = tmp_path / "authority.crt"
    authority.write_bytes(authority_of(folder(settings)))
    variables = {"HOME": str(home), "INSTANCE": "test", "PORT_BASE": str(base), "NETWORK": "host"}
    variables["TLS__MODE"] = tls
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


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """The certificate of an authority that is not the instance's."""
    path = tmp_path / "other.crt"
    path.write_bytes(authority_of(tmp_path / "theirs"))
    return path


def spoken(settings: Settings) -> str:
    """The version of TLS that PostgreSQL sees on a connection with these settings."""
    engine = sa.create_engine(settings.postgres.url(), poolclass=sa.NullPool)
    with engine.connect() as connection:
        return str(connection.scalar(MINE))


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


def test_a_job_speaks_tls_and_insists_on_the_instance_s_authority(server: Server, other: Path) -> None:
    there = database.from_elsewhere(server.settings, str(server.authority))
    assert spoken(there) == "TLSv1.3"
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


def test_with_tls_at_the_doors_the_platform_insists_on_the_instance_s_authority(
    door: Server, other: Path
) -> None:
    assert spoken(door.settings) == "TLSv1.3"
    own = door.settings.postgres
    theirs = door.settings.model_copy(
        update={"postgres": own.model_copy(update={"root_certificate": str(other)})}
    )
    with pytest.raises(OperationalError, match="certificate verify failed"):
        spoken(theirs)
    elsewhere = own.model_copy(update={"host": "other.example"}).url() + "&hostaddr=127.0.0.1"
    with pytest.raises(OperationalError, match="does not match host name"):
        sa.create_engine(elsewhere).connect()


def test_with_tls_at_the_doors_nobody_gets_in_without(door: Server) -> None:
    refused = answered(door.settings, "127.0.0.1", tls=False)
    assert b"no pg_hba.conf entry" in refused
    assert b"no encryption" in refused


def test_airflow_s_other_driver_checks_the_certificate_too(door: Server, other: Path) -> None:
    own = door.settings.postgres.of(door.settings.postgres.airflow)

    async def version(url: str) -> object:
        engine = create_async_engine(url)
        try:
            async with engine.connect() as connection:
                return await connection.scalar(MINE)
        finally:
            await engine.dispose()

    assert run(version(for_asyncpg(own))) == "TLSv1.3"
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        run(version(for_asyncpg(own.model_copy(update={"root_certificate": str(other)}))))


def test_an_executor_on_a_machine_without_the_file_brings_the_authority(door: Server) -> None:
    stores = Connections.of(door.settings)
    gone = stores.postgres.replace(quote(str(door.settings.home), safe=""), "%2Fnowhere")
    assert "nowhere" in gone
    engine = engine_at(gone, stores.authority)
    with engine.connect() as connection:
        assert connection.scalar(MINE) == "TLSv1.3"
    with pytest.raises(OperationalError, match="nowhere"):
        engine_at(gone).connect()
