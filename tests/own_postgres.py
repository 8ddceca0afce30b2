"""A PostgreSQL of a test's own, without the platform: its one role is a superuser without a password."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg2

from sluice.runtime.settings import Settings
from sluice.stack import secrets
from sluice.stack.daemons import postgres
from sluice.stack.networking import private
from sluice_lab.ports import port_base
from sluice_lab.waiting import until


def own_settings(home: Path) -> Settings:
    given = {"instance": "test", "home": home, "port_base": port_base(), "network": "host"}
    secrets.make_missing(Settings(**given))  # type: ignore[arg-type]
    return Settings(**given)  # type: ignore[arg-type]


def make_cluster(settings: Settings) -> None:
    """A cluster with one role, `sluice`, a superuser that owns everything."""
    data = settings.home / "data" / "postgres"
    data.mkdir(parents=True, mode=0o700)
    private.close(settings)
    if os.geteuid() == 0:
        account = private.account(settings)
        os.chown(data, account.pw_uid, account.pw_gid)
    options = ["--username=sluice", "--auth=trust", "--encoding=UTF8", "--locale=C"]
    made = postgres._unprivileged(settings, [postgres._binary("initdb"), "-D", str(data), *options])
    subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
    postgres.configure(settings)
    (data / "pg_hba.conf").write_text("host all all 127.0.0.1/32 trust\n")


@contextmanager
def serving(settings: Settings) -> Iterator[None]:
    with subprocess.Popen(postgres.command(settings).argv, stderr=subprocess.DEVNULL) as process:
        try:
            until(lambda: _answers(settings), what="PostgreSQL answers")
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def _answers(settings: Settings) -> bool:
    """Whether it takes connections, be it to refuse this one."""
    try:
        psycopg2.connect(settings.postgres.url("postgresql")).close()
    except psycopg2.OperationalError as error:
        return "does not exist" in str(error)
    return True


def connected(settings: Settings, database: str, user: str = "sluice") -> Any:
    own = settings.postgres if user == "sluice" else settings.postgres.of(settings.postgres.airflow)
    connection = psycopg2.connect(own.model_copy(update={"database": database}).url("postgresql"))
    connection.autocommit = True
    return connection
