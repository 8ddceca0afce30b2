"""The SQL endpoint as a process of its own: no metastore, no HDFS, no other daemon."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thrift.transport.TTransport import TTransportException

from sluice.runtime.settings import Settings
from sluice.stack import secrets, tls, users
from sluice.stack.daemons import hive
from sluice.stack.environment import environment
from sluice.storage.hive import SqlRows, connect
from sluice_lab.ports import free_ports
from sluice_lab.waiting import SECONDS, until

#: Without daemons: tables are in memory, and files on this disk.
ALONE = {"spark.sql.catalogImplementation": "in-memory", "spark.hadoop.fs.defaultFS": "file:///"}
PEOPLE = ("ann", "bob", "eve")


@dataclass(frozen=True)
class Endpoint:
    """A running endpoint, and the passwords of PEOPLE, who are viewers."""

    settings: Settings
    process: subprocess.Popen[bytes]
    passwords: dict[str, str]

    def session(self, user: str | None = None, seconds: float = 60, **options: Any) -> Any:
        """A connection of a person, or of the platform's own user."""
        login = {"user": user, "password": self.passwords[user]} if user else {}
        where = self.settings.hive.model_copy(update=login)
        return connect(where, seconds, **options)

    def ask(self, statement: str, user: str | None = None, seconds: float = 60) -> SqlRows:
        """The answer to one statement in a session of its own."""
        with closing(self.session(user, seconds)) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(statement)
            return SqlRows([each[0] for each in cursor.description], cursor.fetchall())


@contextmanager
def running(folder: Path, *, secured: bool = False, **limits: int) -> Iterator[Endpoint]:
    """The endpoint with these settings of the section sql; secured: over TLS."""
    (port,) = free_ports(1)
    base = Settings(instance="test", home=folder)
    given = {"port_base": port - base.port_offsets["sql"], "sql": limits}
    given["tls"] = {"mode": "on" if secured else "off"}
    settings = Settings(instance="test", home=folder, **given)
    secrets.make_missing(settings)
    settings = Settings(instance="test", home=folder, **given)
    tls.prepare_tls(settings)
    users.prepare_users(settings)
    hive.configure_spark(settings)
    hive.configure_python(settings)
    passwords = {name: users.Users(settings).add(name, "viewer") for name in PEOPLE}
    command = hive.sql(settings)
    alone = hive._confs({**ALONE, "spark.sql.warehouse.dir": folder / "warehouse"})
    where = command.argv.index("--class")
    argv = [*command.argv[:where], *alone, *command.argv[where:]]
    variables = {**environment(settings), **command.env}
    variables = {name: value for name, value in variables.items() if name not in command.unset}
    with (folder / "endpoint.log").open("wb") as log:
        process = subprocess.Popen(argv, env=variables, cwd=folder, stdout=log, stderr=log)
        try:
            made = Endpoint(settings, process, passwords)
            until(lambda: listens(settings, process), what=lambda: log_of(made)[-3_000:])
            until(
                lambda: answers(made), what=lambda: log_of(made)[-3_000:]
            )  # loads Java's classes, and Spark's
            yield made
        finally:
            process.terminate()
            process.wait(60)


def listens(settings: Settings, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "the endpoint has ended"
    with suppress(OSError), closing(socket.create_connection((settings.hive.host, settings.hive.port), 1)):
        return True
    return False


def answers(endpoint: Endpoint) -> bool:
    """The first handshakes may take longer than a log-in may."""
    with suppress(TTransportException):
        return bool(endpoint.ask("SELECT 1", seconds=SECONDS).rows)
    return False


def log_of(endpoint: Endpoint) -> str:
    return (endpoint.settings.home / "endpoint.log").read_text(errors="replace")
