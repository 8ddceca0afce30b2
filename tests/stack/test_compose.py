"""docker-compose.yaml runs what the catalogue lists, with the same commands."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from sluice.runtime.settings import ROOT, Settings
from sluice.stack.catalogue import DAEMONS
from sluice.stack.daemon import Daemon

FILE = ROOT / "docker-compose.yaml"
HOME = "/opt/sluice/var/main"
ONCE, WATCH = "initialise", "watch"
IMAGE = "${SLUICE_IMAGE:-sluice}"
#: The ports that are published: these two ask who you are.
PUBLISHED = {"sql", "airflow"}


#: Daemons that share the container of another one.
SHARED = {"airflow-triggerer": "airflow-scheduler"}


def service_of(daemon: Daemon) -> str:
    return SHARED.get(daemon.name, daemon.name)


def sharing(daemon: Daemon) -> list[Daemon]:
    """The daemons of this one's container, itself among them."""
    return [each for each in DAEMONS.values() if service_of(each) == service_of(daemon)]


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return dict(yaml.safe_load(FILE.read_text()))


@pytest.fixture(scope="module")
def settings(compose: dict[str, Any]) -> Settings:
    """The settings as the containers have them."""
    environment = compose["services"]["kafka"]["environment"]
    return Settings(
        instance=environment["SLUICE_INSTANCE"],
        bind_host=environment["SLUICE_BIND_HOST"],
        hosts=json.loads(environment["SLUICE_HOSTS"]),
    )


@pytest.mark.slow
def test_it_is_a_compose_file() -> None:
    check = Path(sys.executable).with_name("check-jsonschema")
    argv = [str(check), "--builtin-schema", "vendor.compose-spec", str(FILE)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_daemon_has_its_service_and_no_other_is_there(compose: dict[str, Any]) -> None:
    assert set(compose["services"]) == {*map(service_of, DAEMONS.values()), ONCE, WATCH}


def test_the_watch_runs_beside_them_and_restarts_none(compose: dict[str, Any]) -> None:
    """Docker restarts what died; supervisord is not there."""
    service = compose["services"][WATCH]
    python, job, *options = service["command"]
    assert python == "python"
    watch = runpy.run_path(str(ROOT / job))
    assert watch["arguments"]().parse_args(options).only_look
    assert service["image"] == IMAGE
    assert service["restart"] == "unless-stopped"
    assert service["environment"] == compose["services"]["sql"]["environment"]
    folders = {folder for daemon in DAEMONS.values() for folder in daemon.data}
    named = {folder: folder.rsplit("/")[-1] for folder in folders}
    assert set(service["volumes"]) == {
        f"instance:{HOME}",  # where it leaves what operators read
        *(f"{name}:{HOME}/{folder}:ro" for folder, name in named.items()),  # to see their space
    }


@pytest.mark.parametrize("daemon", DAEMONS.values(), ids=DAEMONS)
class TestService:
    def test_it_runs_the_same_entry_point(self, compose: dict[str, Any], daemon: Daemon) -> None:
        service = compose["services"][service_of(daemon)]
        names = [each.name for each in sharing(daemon)]
        assert service["command"] == ["python", "-m", "sluice.stack", "run", *names]
        assert service["image"] == IMAGE
        assert service["restart"] == "unless-stopped"

    def test_its_health_is_the_daemon_s(self, compose: dict[str, Any], daemon: Daemon) -> None:
        test = compose["services"][service_of(daemon)]["healthcheck"]["test"]
        names = [each.name for each in sharing(daemon)]
        assert test == ["CMD", "python", "-m", "sluice.stack", "health", *names]

    def test_it_waits_for_the_same_daemons(self, compose: dict[str, Any], daemon: Daemon) -> None:
        conditions = compose["services"][service_of(daemon)].get("depends_on", {})
        assert {how["condition"] for how in conditions.values()} <= {"service_healthy"}
        assert set(conditions) == {name for each in sharing(daemon) for name in each.depends_on}

    def test_its_data_outlives_it(self, compose: dict[str, Any], daemon: Daemon) -> None:
        mounts = dict(volume.split(":") for volume in compose["services"][service_of(daemon)]["volumes"])
        assert mounts.pop("instance") == HOME
        assert set(mounts.values()) == {f"{HOME}/{directory}" for directory in daemon.data}
        assert set(mounts) <= set(compose["volumes"])

    def test_only_doors_are_published_on_loopback_alone(
        self, compose: dict[str, Any], daemon: Daemon, settings: Settings
    ) -> None:
        published = compose["services"][service_of(daemon)].get("ports", [])
        ports = [settings.port(name) for name in daemon.ports if name in PUBLISHED]
        assert published == [f"127.0.0.1:{port}:{port}" for port in ports]

    def test_it_is_stopped_by_the_same_signal(self, compose: dict[str, Any], daemon: Daemon) -> None:
        signal = compose["services"][service_of(daemon)].get("stop_signal", "SIGTERM")
        assert signal == f"SIG{daemon.stop_signal}"


def test_a_service_has_few_rights(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not {"privileged", "cap_add", "user"} & set(service), name


def test_a_backup_takes_every_volume(compose: dict[str, Any]) -> None:
    script = (ROOT / "docker" / "volumes.sh").read_text()
    (names,) = re.findall(r"^for volume in (.*); do$", script, re.MULTILINE)
    assert set(names.split()) == set(compose["volumes"])


def test_every_named_volume_is_used(compose: dict[str, Any]) -> None:
    used = {volume.split(":")[0] for service in compose["services"].values() for volume in service["volumes"]}
    assert used == set(compose["volumes"])


def test_the_others_reach_a_daemon_under_its_service_s_name(settings: Settings) -> None:
    assert settings.kafka.bootstrap == f"kafka:{settings.port('kafka')}"
    assert settings.hdfs.namenode == f"hdfs://namenode:{settings.port('namenode')}"
    assert settings.hive.metastore == f"thrift://metastore:{settings.port('metastore')}"
    assert (settings.hbase.host, settings.postgres.host, settings.hive.host) == (
        "hbase-thrift",
        "postgres",
        "sql",
    )


@pytest.mark.parametrize("daemon", DAEMONS.values(), ids=DAEMONS)
def test_a_daemon_is_reached_under_the_name_of_its_service(daemon: Daemon, settings: Settings) -> None:
    assert settings.host(daemon.name) == service_of(daemon)


@pytest.mark.parametrize("part", ["flume", "spark-driver"])
def test_what_airflow_starts_is_reached_where_it_starts(part: str, settings: Settings) -> None:
    assert settings.host(part) == "airflow-scheduler"
