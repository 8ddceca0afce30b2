"""The core starts and works where `sluice_hosts` is not installed."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaConsumer

from sluice.cli.errors import USAGE
from sluice.runtime.settings import Settings
from sluice_lab.ports import port_base
from sluice_lab.waiting import SECONDS
from tests.hosts import without

pytestmark = pytest.mark.slow

NAME = "absent"
ELSEWHERE = ("kafka", "hdfs", "hbase", "metastore", "sql", "airflow")
OF_HOSTS = ("hosts", "jobs", "placement")
INVENTORY = """
topic: {topic}
front_ends:
  - host: web1
    files: ["{{home}}/frontends/web1/access.%Y-%m-%d.log"]
collectors:
  - name: collector1
"""
DEPLOY = """
import sys
from sluice.collection import deploy
from sluice.runtime.settings import Settings
deploy.apply(Settings())
assert not [name for name in sys.modules if name.startswith("sluice_hosts")]
"""
PLAN = """
from sluice.collection import deploy_plan
from sluice.runtime.settings import Settings
deploy_plan.plan(Settings())
"""
ROUTES = """
from sluice_airflow.api.app import make_app
print(*{route.path for route in make_app().routes}, sep="\\n")
"""
DAGS = """
import runpy, sys
for file in sys.argv[1:]:
    runpy.run_path(file)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return without.make(tmp_path_factory.mktemp("project"))


def run(
    python: Path, *arguments: str, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the other environment's Python in its project."""
    root = python.parents[2]
    given = {name: text for name, text in os.environ.items() if name not in ("PYTHONPATH", "SLUICE_ROOT")}
    environment = given | {"PYTHONPATH": str(root / "plugins")} | dict(more or {})
    command = [str(python), *arguments]
    return subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, timeout=240, check=False
    )


def sluice(
    python: Path, *arguments: str, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return run(python, "-m", "sluice.cli.main", *arguments, more=more)


@pytest.mark.parametrize("command", OF_HOSTS)
def test_a_command_of_several_hosts_is_none(python: Path, command: str) -> None:
    done = sluice(python, command)
    assert (done.returncode, "No such command" in done.stderr) == (USAGE, True)


def test_an_inventory_that_names_another_host_is_refused(python: Path) -> None:
    home = python.parents[2] / "var" / "refusing"
    home.mkdir()
    text = INVENTORY.format(topic="logs").replace("- host: web1", "- host: web1\n    runs_on: h1")
    (home / "collection.yaml").write_text(text)
    done = run(python, "-c", PLAN, more={"SLUICE_INSTANCE": home.name, "SLUICE_PORT_BASE": "29000"})
    assert "front_ends.0.runs_on = 'h1': other hosts need the package sluice_hosts" in done.stderr


def test_airflow_has_all_dags_and_no_route_of_placement(python: Path) -> None:
    files = sorted(map(str, (python.parents[2] / "dags").glob("*.py")))
    loaded = run(python, "-c", DAGS, *files)
    assert loaded.returncode == 0, loaded.stderr
    routes = run(python, "-c", ROUTES)
    assert "/api/v1/tasks" in routes.stdout, routes.stderr
    assert "placement" not in routes.stdout


@pytest.fixture
def instance(stack: Settings, python: Path) -> Iterator[tuple[Settings, dict[str, str]]]:
    """An instance of the other project that uses the running stack, except for PostgreSQL."""
    root = python.parents[2]
    base = port_base()
    made = Settings(instance=NAME, home=root / "var" / NAME, port_base=base)
    environment = {
        "SLUICE_INSTANCE": NAME,
        "SLUICE_PORT_BASE": str(base),
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
    yield made, environment
    stopped = sluice(python, "down", more=environment)
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr


@pytest.mark.stack
def test_the_platform_starts_and_collects_lines(
    stack: Settings, python: Path, instance: tuple[Settings, dict[str, str]]
) -> None:
    made, environment = instance
    up = sluice(python, "up", "--external", ",".join(ELSEWHERE), more=environment)
    assert up.returncode == 0, up.stdout + up.stderr
    topic = f"absent_{secrets.token_hex(4)}"
    (made.home / "collection.yaml").write_text(INVENTORY.format(topic=topic))
    deployed = run(python, "-c", DEPLOY, more=environment)
    assert deployed.returncode == 0, deployed.stdout + deployed.stderr
    (made.home / "frontends" / "web1" / "access.2026-01-01.log").write_text("a line\n")
    with closing(
        KafkaConsumer(
            topic,
            bootstrap_servers=stack.kafka.bootstrap,
            auto_offset_reset="earliest",
            group_id=None,
            consumer_timeout_ms=int(SECONDS * 1000),
        )
    ) as consumer:
        assert next(iter(consumer)).value
    shown = sluice(python, "status", more=environment)
    assert "flume-web1" in shown.stdout, shown.stderr
