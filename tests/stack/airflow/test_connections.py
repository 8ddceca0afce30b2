"""Connections are made from the settings and turn into the same settings again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from sluice.runtime.settings import Settings
from sluice.stack.airflow import connections
from sluice.stack.airflow.connections import BadConnection


@pytest.fixture
def settings(tmp_path) -> Settings:
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "postgres").write_text("from the file")
    return Settings(instance="test", home=tmp_path, spark={"master": "spark://10.0.0.5:7077"})


def connection(**fields: Any) -> Any:
    empty = dict.fromkeys(("conn_type", "host", "port", "login", "password", "schema", "extra"))
    fields = {**empty, **fields}
    if isinstance(fields["extra"], dict):
        fields["extra"] = json.dumps(fields["extra"])
    return SimpleNamespace(**fields)


def test_round_trip_changes_nothing(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    # What no connection carries comes from this process's instance.
    monkeypatch.setenv("SLUICE_INSTANCE", "test")
    monkeypatch.setenv("SLUICE_HOME", str(settings.home))
    made = {name: connection(**fields) for name, fields in connections.from_settings(settings).items()}
    assert set(made) == set(connections.CONNECTIONS)
    again = connections.to_settings(made)
    for section in ("kafka", "hdfs", "hbase", "hive", "postgres", "spark"):
        assert getattr(again, section) == getattr(settings, section)


@pytest.mark.slow
def test_environment_makes_another_process_use_the_connections() -> None:
    environment = connections.environment(
        {
            "kafka_default": connection(conn_type="kafka", extra={"bootstrap.servers": "k1:9092,k2:9092"}),
            "hbase_default": connection(conn_type="hbase", host="h1", port=9090),
            "sluice_db": connection(conn_type="postgres", host="p1", port=5432, login="u", password="pw"),
        }
    )
    code = (
        "from sluice.runtime.settings import Settings; s = Settings(); "
        "print(s.kafka.bootstrap, s.hbase.host, s.hbase.port, s.postgres.url(), s.spark.master)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "SLUICE_INSTANCE": "test", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert out.stdout.split() == [
        "k1:9092,k2:9092",
        "h1",
        "9090",
        "postgresql+psycopg2://u:pw@p1:5432/sluice",
        "local[2]",
    ]


@pytest.mark.parametrize(
    ("fields", "master"),
    [
        ({"conn_type": "spark", "host": "local[2]"}, "local[2]"),
        ({"conn_type": "spark", "host": "spark://h", "port": 7077}, "spark://h:7077"),
        ({"conn_type": "spark", "host": "h", "port": 7077}, "spark://h:7077"),
        ({"conn_type": "spark", "host": "yarn"}, "yarn"),
        ({"conn_type": "k8s", "host": "https://h", "port": 443}, "k8s://https://h:443"),
    ],
)
def test_master_is_read_as_airflows_spark_hook_reads_it(fields: dict, master: str) -> None:
    assert connections.environment({"spark_default": connection(**fields)}) == {
        "SLUICE_SPARK__MASTER": master
    }


def test_what_is_missing_is_named() -> None:
    with pytest.raises(BadConnection, match=r"'kafka_default' has no bootstrap\.servers"):
        connections.environment({"kafka_default": connection(conn_type="kafka", extra={})})
    with pytest.raises(BadConnection, match="'hbase_default' has no host"):
        connections.environment({"hbase_default": connection(conn_type="hbase")})
