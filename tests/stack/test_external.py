"""`sluice up --external`: the instance starts its own services and uses others elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest

from sluice.runtime.settings import Settings
from sluice.stack import supervisord

pytestmark = pytest.mark.stack

NAME = "external"
ELSEWHERE = ("kafka", "hdfs", "hbase", "metastore", "sql", "airflow")


@pytest.fixture
def environment(stack: Settings) -> Iterator[dict[str, str]]:
    """The environment of an instance that uses the running stack, except for PostgreSQL."""
    current = stack.root / "var" / "current"
    before = current.read_text() if current.exists() else None
    yield {
        **os.environ,
        "SLUICE_PORT_BASE": str(stack.port_base + 500),
        "SLUICE_KAFKA__BOOTSTRAP": stack.kafka.bootstrap,
        "SLUICE_HDFS__NAMENODE": stack.hdfs.namenode,
        "SLUICE_HDFS__WEBHDFS": stack.hdfs.webhdfs,
        "SLUICE_HBASE__HOST": stack.hbase.host,
        "SLUICE_HBASE__PORT": str(stack.hbase.port),
        "SLUICE_HIVE__METASTORE": stack.hive.metastore,
        "SLUICE_HIVE__HOST": stack.hive.host,
        "SLUICE_HIVE__PORT": str(stack.hive.port),
        "SLUICE_HIVE__PASSWORD": stack.hive.password,
        "SLUICE_AIRFLOW__URL": stack.airflow.url,
    }
    sluice(dict(os.environ) | {"SLUICE_PORT_BASE": str(stack.port_base + 500)}, "down")
    shutil.rmtree(stack.root / "var" / NAME, ignore_errors=True)  # a refused instance has no folder
    if before is None:
        current.unlink(missing_ok=True)  # a refused instance did not become current
    else:
        current.write_text(before)


def sluice(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sluice.cli.main", "--instance", NAME, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)


def test_only_what_is_its_own_is_started(stack: Settings, environment: dict[str, str]) -> None:
    done = sluice(environment, "up", "--external", ",".join(ELSEWHERE))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kafka                  reached (external)" in done.stdout
    own = Settings(instance=NAME, home=stack.root / "var" / NAME, port_base=stack.port_base + 500)
    assert set(supervisord.programs(own)) == {"postgres", "watch"}

    import psycopg2

    with closing(psycopg2.connect(own.postgres.url(driver="postgresql"))) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT count(*) FROM tasks")
        assert cursor.fetchone()[0] > 0


def test_an_unknown_service_is_named_with_the_known_ones(environment: dict[str, str]) -> None:
    done = sluice(environment, "up", "--external", "kafka,redis")
    assert done.returncode == 2
    assert "redis" in done.stderr
    assert "postgres, kafka, hdfs" in done.stderr
