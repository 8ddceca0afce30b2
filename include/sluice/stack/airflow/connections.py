"""Converts the settings to Airflow's connections, and the connections back to settings.

``sluice up`` gives the connections to Airflow, and a job gets them back from it, so a connection that is
changed in Airflow changes what the jobs use.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

from sluice.runtime.settings import Settings

SPARK, KAFKA, WEBHDFS, HBASE = "spark_default", "kafka_default", "webhdfs_default", "hbase_default"
HIVE, METASTORE, DATABASE = "hiveserver2_default", "metastore_default", "sluice_db"
CONNECTIONS = (SPARK, KAFKA, WEBHDFS, HBASE, HIVE, METASTORE, DATABASE)


class BadConnection(ValueError):
    """A connection lacks what a job needs of it."""


class Connection(Protocol):
    """The part of an Airflow connection that is read here."""

    @property
    def conn_type(self) -> str | None: ...
    @property
    def host(self) -> str | None: ...
    @property
    def port(self) -> int | None: ...
    @property
    def login(self) -> str | None: ...
    @property
    def password(self) -> str | None: ...
    @property
    def schema(self) -> str | None: ...
    @property
    def extra(self) -> str | None: ...


def from_settings(settings: Settings) -> dict[str, dict[str, Any]]:
    """Each connection's fields by connection id, as in Airflow's JSON (``extra`` is an object)."""
    webhdfs = urlsplit(settings.hdfs.webhdfs)
    metastore = urlsplit(settings.hive.metastore)
    postgres = settings.postgres
    return {
        SPARK: {
            "conn_type": "spark",
            "host": settings.spark.master,
            "extra": {"spark-binary": "spark-submit", "deploy-mode": "client"},
        },
        KAFKA: {"conn_type": "kafka", "extra": {"bootstrap.servers": settings.kafka.bootstrap}},
        WEBHDFS: {
            "conn_type": "webhdfs",
            "host": webhdfs.hostname,
            "port": webhdfs.port,
            "login": settings.hdfs.user,
            "extra": {"namenode": settings.hdfs.namenode},
        },
        HBASE: {"conn_type": "hbase", "host": settings.hbase.host, "port": settings.hbase.port},
        HIVE: {
            "conn_type": "hiveserver2",
            "host": settings.hive.host,
            "port": settings.hive.port,
            "login": settings.hive.user,
            "password": settings.hive.password,
            "schema": settings.hive.database,
            "extra": {"auth_mechanism": settings.hive.auth},
        },
        METASTORE: {"conn_type": "hive_metastore", "host": metastore.hostname, "port": metastore.port},
        DATABASE: {
            "conn_type": "postgres",
            "host": postgres.host,
            "port": postgres.port,
            "login": postgres.user,
            "password": postgres.password,
            "schema": postgres.database,
        },
    }


def environment(connections: Mapping[str, Connection]) -> dict[str, str]:
    """The ``SLUICE_*`` variables that make a process use these connections.

    Connections that are not given change nothing. Raises BadConnection.
    """
    given = {f"{section}__{field}": value for (section, field), value in _fields(connections).items()}
    return {f"SLUICE_{name.upper()}": str(value) for name, value in given.items()}


def to_settings(connections: Mapping[str, Connection]) -> Settings:
    """This process's settings, overridden by the connections. Raises BadConnection."""
    sections: dict[str, dict[str, Any]] = {}
    for (section, field), value in _fields(connections).items():
        sections.setdefault(section, {})[field] = value
    return Settings(**sections)  # type: ignore[arg-type]


def _fields(connections: Mapping[str, Connection]) -> dict[tuple[str, str], str | int]:
    fields: dict[tuple[str, str], str | int | None] = {}
    for name, connection in connections.items():
        extra = json.loads(connection.extra or "{}")
        host, port = connection.host, connection.port
        if name == SPARK:
            fields["spark", "master"] = _master(connection)
        elif name == KAFKA:
            fields["kafka", "bootstrap"] = _needed(extra.get("bootstrap.servers"), name, "bootstrap.servers")
        elif name == WEBHDFS:
            scheme = "https" if extra.get("use_ssl") else "http"
            fields["hdfs", "webhdfs"] = f"{scheme}://{_needed(host, name, 'host')}:{port or 9870}"
            fields["hdfs", "user"] = connection.login
            fields["hdfs", "namenode"] = extra.get("namenode")
        elif name == METASTORE:
            fields["hive", "metastore"] = f"thrift://{_needed(host, name, 'host')}:{port or 9083}"
        elif name == HBASE:
            fields["hbase", "host"], fields["hbase", "port"] = _needed(host, name, "host"), port
        elif name == HIVE:
            fields["hive", "host"], fields["hive", "port"] = _needed(host, name, "host"), port
            fields["hive", "user"], fields["hive", "password"] = connection.login, connection.password
            fields["hive", "auth"] = extra.get("auth_mechanism")
            fields["hive", "database"] = connection.schema
        elif name == DATABASE:
            fields["postgres", "host"], fields["postgres", "port"] = _needed(host, name, "host"), port
            fields["postgres", "user"], fields["postgres", "password"] = connection.login, connection.password
            fields["postgres", "database"] = connection.schema
    return {field: value for field, value in fields.items() if value not in (None, "")}


def _master(connection: Connection) -> str:
    """The master URL as Airflow's own Spark hook reads it.

    It is either complete in the host, or split into its parts because the connection was given as a URI.
    """
    host = connection.host or ""
    if not (connection.conn_type == "spark" and host and ("://" in host or not connection.port)):
        host = f"{connection.conn_type}://{host}"
    return f"{host}:{connection.port}" if connection.port else host


def _needed(value: str | None, connection: str, field: str) -> str:
    if not value:
        raise BadConnection(
            f"connection {connection!r} has no {field}: set it in Airflow (Admin, Connections)"
        )
    return value
