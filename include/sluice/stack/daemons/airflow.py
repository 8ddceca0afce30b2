"""Airflow's four components, each as its own daemon.

``airflow standalone`` would leave children behind.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from psycopg2.sql import SQL, Identifier

from sluice.runtime.settings import Settings
from sluice.stack import databases, health, tls, users
from sluice.stack.airflow.configuration import airflow_environment, write_config
from sluice.stack.daemon import Command, Daemon
from sluice.stack.daemons.hive import configure_spark
from sluice.stack.environment import environment

AIRFLOW = str(Path(sys.executable).with_name("airflow"))


def prepare_home(settings: Settings) -> None:
    (settings.home / "airflow" / "logs").mkdir(parents=True, exist_ok=True)
    write_config(settings)


def migrate(settings: Settings) -> None:
    """Bring Airflow's database to the installed version.

    All four components call this at once. The first one migrates; the others wait for its lock and then find
    the version in the database's comment.
    """
    own = settings.postgres.of(settings.postgres.airflow)
    databases.create(settings, own)
    wanted = f"apache-airflow {version('apache-airflow')}"
    with databases.locked(own) as cursor:
        cursor.execute(
            "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = current_database()"
        )
        if cursor.fetchone() == (wanted,):
            return
        subprocess.run([AIRFLOW, "db", "migrate"], env=environment(settings), check=True)
        cursor.execute(SQL("COMMENT ON DATABASE {} IS %s").format(Identifier(own.database)), (wanted,))


def _daemon(
    name: str,
    argv: Callable[[Settings], list[str]],
    component: str,
    *,
    ports: tuple[str, ...] = (),
    needs: tuple[str, ...] = (),
    prepare: tuple[Callable[[Settings], None], ...] = (),
) -> Daemon:
    def command(settings: Settings) -> Command:
        return Command(argv(settings), env=airflow_environment(settings))

    return Daemon(
        name=name,
        service="airflow",
        ports=ports,
        depends_on=("postgres", *needs),
        prepare=(*prepare, prepare_home, configure_spark, migrate),
        command=command,
        health=functools.partial(health.airflow, component=component),
        data=("airflow",),
    )


def _airflow(*argv: str) -> Callable[[Settings], list[str]]:
    return lambda settings: [AIRFLOW, *argv]


def _api_server(settings: Settings) -> list[str]:
    """`airflow api-server`, with what stands in front of it."""
    return [sys.executable, "-P", str(settings.root / "plugins" / "sluice_airflow" / "server.py")]


API = _daemon(
    "airflow-api",
    _api_server,
    "metadatabase",
    ports=("airflow",),
    prepare=(users.prepare_users, tls.prepare_tls),
)
# The log servers are skipped because they would listen on every interface; the API server finds the logs on
# disk. The scheduler needs the API: a task that starts while the API does not answer is killed, and tried
# again a minute later.
SCHEDULER = _daemon(
    "airflow-scheduler", _airflow("scheduler", "--skip-serve-logs"), "scheduler", needs=("airflow-api",)
)
DAG_PROCESSOR = _daemon("airflow-dag-processor", _airflow("dag-processor"), "dag_processor")
TRIGGERER = _daemon("airflow-triggerer", _airflow("triggerer", "--skip-serve-logs"), "triggerer")
