"""A PostgreSQL of one's own, with the platform's binaries and configuration and no other daemon."""

from __future__ import annotations

import secrets
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import sqlalchemy as sa

from sluice.runtime.settings import Settings
from sluice.stack import health
from sluice.stack.daemons import postgres as daemon
from sluice.storage.postgres import engine, migrate

START_SECONDS = 60.0


@contextmanager
def server(name: str) -> Iterator[Settings]:
    """The settings of a running server, which is gone afterwards."""
    with tempfile.TemporaryDirectory() as home:
        settings = Settings(instance=name, home=Path(home), port_base=1, network="host")
        offset = settings.port_offsets["postgres"]
        settings = Settings(instance=name, home=Path(home), port_base=_free_port() - offset, network="host")
        password = settings.postgres.model_copy(update={"password": secrets.token_hex(8)})
        settings = settings.model_copy(update={"postgres": password})
        daemon.initialise(settings)
        daemon.configure(settings)
        with (Path(home) / "log").open("wb") as log:
            process = subprocess.Popen(daemon.command(settings).argv, stdout=log, stderr=log)
        try:
            _wait(settings)
            yield settings
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(START_SECONDS)


@contextmanager
def database(settings: Settings, name: str) -> Iterator[Settings]:
    """The settings of a database of that name with the newest schema; it is dropped afterwards."""
    own = settings.model_copy(update={"postgres": settings.postgres.model_copy(update={"database": name})})
    _administer(settings, f"CREATE DATABASE {name}")
    try:
        migrate(own)
        yield own
    finally:
        engine(own).dispose()
        _administer(settings, f"DROP DATABASE {name} WITH (FORCE)")


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _administer(settings: Settings, statement: str) -> None:
    administrator = sa.create_engine(settings.postgres.url("postgres"), isolation_level="AUTOCOMMIT")
    with administrator.connect() as connection:
        connection.execute(sa.text(statement))
    administrator.dispose()


def _wait(settings: Settings) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            health.postgres(settings)
        except health.Unhealthy:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return
