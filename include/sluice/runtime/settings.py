"""Every port, address and limit of an instance.

They come from include/settings.yaml, the environment and the instance's secrets. An *instance* is one whole
platform: a directory ``var/<instance>`` and a block of ports. The instance is ``SLUICE_INSTANCE``, else the
one that was brought up last (``var/current``), else ``main``.
"""

from __future__ import annotations

import contextlib
import functools
import ipaddress
import json
import os
import re
import secrets
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import yaml
from pydantic import BaseModel, Field, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from sluice.runtime import given_secrets
from sluice.runtime.login_settings import Login

ROOT = Path(os.environ.get("SLUICE_ROOT") or Path(__file__).resolve().parents[3])
SETTINGS_FILE = ROOT / "include" / "settings.yaml"
DEFAULT_INSTANCE = "main"
LOOPBACK = "127.0.0.1"
#: The daemons of HDFS and HBase that jobs ask; they listen at `hadoop_host` if it is given.
HADOOP = frozenset({"namenode", "datanode", "hbase-thrift"})
#: The services with a door that can speak TLS.
TLS_DOORS = ("airflow", "sql", "postgres")
#: In the instance's directory: the authority by which the platform's own clients check the doors.
TRUSTED = "tls/authority.crt"
#: The same for PostgreSQL, whose certificate is always of the instance's own authority.
DATABASE_TRUSTED = "tls/instance.crt"
#: In the home of a job on another host: the settings that the platform's machine told it while it runs.
TOLD = "told.json"
_NAME = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,62}))*")


class UnknownInstance(ValueError):
    """The instance has no port base of its own."""


class KafkaLogin(BaseModel, frozen=True):
    """How a job on another host shows who it is; the last three are files in PEM."""

    user: str
    password: str = Field(repr=False)
    authority: str
    certificate: str
    key: str


#: Default limit of an unpacked batch, in multiples of `max_message_bytes`. Flume's batches have up to
#: `max_message_bytes` before they are packed; other producers fill a batch by its packed size, and logs pack
#: 4 to 8 times.
UNPACKED = 4


class Kafka(BaseModel, frozen=True):
    bootstrap: str = ""
    partitions: int = Field(4, ge=1)
    replication: int = Field(1, ge=1)
    max_message_bytes: int = Field(16 << 20, ge=1 << 20)
    max_unpacked_bytes: int = Field(0, ge=0)  # of a compressed batch; 0: UNPACKED times max_message_bytes
    retention_days: int = Field(7, ge=1)  # of what is archived and counted; the rest stays
    retention_bytes: int = Field(64 << 30, ge=1 << 30)  # the same, of a topic
    identity_key: str = Field("", repr=False)  # the edges prove their lines' identities with it
    login: KafkaLogin | None = None  # Sluice makes it for jobs on other hosts; None: Kafka asks nobody

    @property
    def unpacked_bytes(self) -> int:
        """The bytes that a batch may have once it is unpacked; a larger one is a dead letter."""
        return self.max_unpacked_bytes or UNPACKED * self.max_message_bytes

    @model_validator(mode="after")
    def _check_unpacked(self) -> Kafka:
        if self.unpacked_bytes < self.max_message_bytes:
            raise ValueError(
                f"max_unpacked_bytes: {self.max_unpacked_bytes} is less than max_message_bytes, "
                f"{self.max_message_bytes}: give at least that, or 0 for {UNPACKED} times as much"
            )
        return self


class Hdfs(BaseModel):
    namenode: str = ""
    webhdfs: str = ""
    user: str = "sluice"
    raw: str = "/sluice/raw"
    warehouse: str = "/sluice/warehouse"


class HBase(BaseModel):
    host: str = ""
    port: int = 0


class Hive(BaseModel):
    metastore: str = ""
    host: str = ""
    port: int = 0
    root_certificate: str = ""  # a file: with it, TLS to an endpoint whose certificate this authority signed
    user: str = "sluice"
    password: str = Field("", repr=False)
    auth: Literal["CUSTOM", "LDAP", "NONE", "NOSASL"] = "CUSTOM"  # HiveServer2's names for it
    database: str = "sluice"


class DatabaseRole(BaseModel):
    """A role of PostgreSQL and the one database that it owns."""

    user: str = ""
    password: str = Field("", repr=False)
    database: str = ""


class Postgres(BaseModel):
    """The server, and the role of Sluice's own database; Airflow and the metastore have others."""

    host: str = ""
    port: int = 0
    user: str = "sluice"
    password: str = Field("", repr=False)
    database: str = "sluice"
    root_certificate: str = ""  # a file: with it, TLS to a server whose certificate this authority signed
    airflow: DatabaseRole = DatabaseRole()
    metastore: DatabaseRole = DatabaseRole()

    @property
    def roles(self) -> tuple[DatabaseRole, ...]:
        """All three; with an external server they may be the same role."""
        own = DatabaseRole(user=self.user, password=self.password, database=self.database)
        return own, self.airflow, self.metastore

    def of(self, role: DatabaseRole) -> Postgres:
        """The same server, for another role and its database."""
        return self.model_copy(update=role.model_dump())

    def url(self, driver: str = "postgresql+psycopg2") -> str:
        who = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}"
        url = f"{driver}://{who}@{self.host}:{self.port}/{quote(self.database, safe='')}"
        return f"{url}?{self.parameters}" if self.parameters else url

    @property
    def parameters(self) -> str:
        """What follows the ``?`` of a URL for libpq or JDBC: which server is trusted."""
        if not self.root_certificate:
            return ""
        return f"sslmode=verify-full&sslrootcert={quote(self.root_certificate, safe='')}"


_LEAST_HEAP_MEGABYTES = 64


class Heaps(BaseModel):
    """The most memory that the heap of each daemon's JVM takes; with its code, a JVM takes more."""

    kafka: str = "320m"
    namenode: str = "224m"
    datanode: str = "224m"
    hbase: str = "768m"
    hbase_thrift: str = "384m"
    metastore: str = "256m"

    @field_validator("*")
    @classmethod
    def _check_heap(cls, memory: str) -> str:
        return _at_least(memory, _LEAST_HEAP_MEGABYTES)


_MEGABYTES = {"m": 1, "g": 1024}
_LEAST_TASK_MEGABYTES = 480  # Spark takes 450 MiB at least


class Spark(BaseModel):
    master: str = "local[2]"
    driver_memory: str = "1g"
    sql_memory: str = "700m"  # the SQL endpoint: statements are planned in it, and results pass
    sql_task_memory: str = "512m"  # each of its processes that compute

    @field_validator("sql_task_memory")
    @classmethod
    def _check_task_memory(cls, memory: str) -> str:
        return _at_least(memory, _LEAST_TASK_MEGABYTES)


def _at_least(memory: str, least: int) -> str:
    """The memory, if it is that many megabytes or more. Raises ValueError."""
    number, unit = memory[:-1], memory[-1:].lower()
    if not number.isdecimal() or int(number) * _MEGABYTES.get(unit, 0) < least:
        raise ValueError(f"{memory!r}: give at least {least}m, such as 512m or 2g")
    return memory


class Airflow(BaseModel):
    url: str = ""
    user: str = "admin"
    root_certificate: str = ""  # a file with the authority for an https `url`; empty: this system's own


class Tls(BaseModel):
    """TLS at the doors."""

    mode: Literal["auto", "on", "off"] = "auto"  # auto: unless the doors listen on loopback
    certificate: str = ""  # a file in PEM, with what leads to the authority; empty: one of the instance's
    key: str = ""  # a file in PEM without a password
    authority: str = ""  # a file in PEM: by it the platform's own clients check the certificate
    names: tuple[str, ...] = ()  # further names and addresses for the instance's certificate

    @field_validator("mode", mode="before")
    @classmethod
    def _of_yaml(cls, given: Any) -> Any:
        return {True: "on", False: "off"}.get(given, given) if isinstance(given, bool) else given

    @field_validator("names")
    @classmethod
    def _usable(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not _NAME.fullmatch(name) and not _ip(name):
                raise ValueError(f"{name!r} is no name of a host and no address: correct it, or leave it out")
        return names

    @model_validator(mode="after")
    def _whole(self) -> Tls:
        given = {"certificate": self.certificate, "key": self.key, "authority": self.authority}
        missing = [name for name, path in given.items() if not path]
        if missing and len(missing) < len(given):
            raise ValueError(
                f"{missing[0]}: is missing: give certificate, key and authority, or none of them"
            )
        if not missing and self.names:
            raise ValueError("names: a certificate of your own has its names already: leave them out")
        return self


class Speed(BaseModel):
    batch_seconds: float = Field(0.7, gt=0)  # from the begin of a batch to that of the next, at least
    batch_bytes: int = Field(64 << 20, ge=1 << 20)  # of lines in a batch, about
    small_batch: int = Field(2_000, ge=0)  # a batch of fewer lines, about, is counted in the driver
    projection_seconds: float = Field(0.5, gt=0)  # the least time between two writes of results
    workers: int = Field(0, ge=0, le=1 << 16)  # for routed tasks; 0: as many as run at the same time
    drivers: int = Field(1, ge=1, le=64)  # processes that share the topics


class Archive(BaseModel):
    max_lines: int = Field(300_000, ge=1)
    max_age_seconds: float = Field(15.0, gt=0)
    members: int = Field(0, ge=0, le=64)  # archivers at most; 0: half as many as the machine has cores
    merged_bytes: int = Field(128 << 20, ge=1 << 20, le=1 << 30)  # of a file that compaction makes, at most
    replaced_hours: float = Field(24.0, ge=1)  # that files are kept for readers after they were merged


class Limits(BaseModel):
    line_bytes: int = 1 << 20
    unpacked_log_bytes: int = Field(0, ge=0)  # of a packed log to replay; 0: 100 times its size, or 64 MiB
    series: int = Field(100_000, gt=0)  # of a task version in one period; with more, the task is set aside


class Sql(BaseModel):
    """What a statement, a user and a stranger may take of the SQL endpoint."""

    statement_seconds: int = Field(300, ge=1)  # to analyse and run a statement and to read its result
    statement_bytes: int = Field(256 << 10, ge=1 << 10, le=64 << 20)  # of a statement's text
    nesting: int = Field(100, ge=10, le=1_000)  # parentheses in parentheses
    values: int = Field(10_000, ge=100)  # values, names and signs in a statement
    result_rows: int = Field(1_000_000, ge=1)
    result_bytes: int = Field(256 << 20, ge=1 << 20)
    statements: int = Field(12, ge=1, le=1_000)  # that run at the same time
    statements_of_user: int = Field(4, ge=1, le=1_000)
    wait_seconds: int = Field(60, ge=1)  # for others to end, before a statement is refused
    connections: int = Field(128, ge=1, le=10_000)  # of those who logged in
    connections_of_user: int = Field(32, ge=1, le=10_000)
    logins: int = Field(32, ge=1, le=1_000)  # connections that have not logged in
    login_seconds: int = Field(5, ge=1, le=60)
    request_bytes: int = Field(4 << 20, ge=64 << 10, le=64 << 20)  # of one call


class Retention(BaseModel):
    """How long what grows is kept (docs/runbook.md, "What grows")."""

    days: int = Field(400, ge=1)  # results, after the last line of their day arrived
    history_days: int = Field(1_100, ge=30)  # PostgreSQL lets nobody delete younger entries than that
    archive_days: int = Field(0, ge=0)  # that the archive keeps lines after they arrived; 0: for ever
    commit_days: int = Field(1, ge=1)  # commits one by one; then a row a day
    airflow_days: int = Field(60, ge=7)  # Airflow's runs, and the logs of its tasks

    @model_validator(mode="after")
    def _check_archive(self) -> Retention:
        if 0 < self.archive_days < self.days:
            raise ValueError(
                f"archive_days: {self.archive_days} is less than days ({self.days}), and results are "
                f"computed again from the archive: give at least {self.days}, or 0 to keep it for ever"
            )
        return self


class Placement(BaseModel):
    """Where units run: how they are measured, and when they move."""

    beat_seconds: float = Field(5.0, ge=1)  # between two looks at hosts and units
    half_life_seconds: float = Field(300.0, ge=1)  # a reading weighs half as much after this time
    silent_seconds: float = Field(10.0, ge=1)  # silence of a host before its units go elsewhere
    hold_seconds: float = Field(300.0, ge=0)  # longest wait for loads before anything is evened out
    moves_an_hour: int = Field(4, ge=0)  # at most; those away from a host that does not answer do not count
    speeds: dict[str, float] = {}  # of hosts, in reference cores; others are measured

    @field_validator("speeds")
    @classmethod
    def _positive(cls, speeds: dict[str, float]) -> dict[str, float]:
        for host, speed in speeds.items():
            if not 0 < speed < float("inf"):
                raise ValueError(f"{host} has the speed {speed:g}: give more than 0, or leave it out")
        return speeds


class Api(BaseModel):
    """Sluice's REST API."""

    viewers_see_keys: bool = False  # hot keys may be clients' addresses


class Notifications(BaseModel):
    """Where alerts are sent; nowhere if neither `webhook` nor `mail_to` is given."""

    webhook: str = Field("", pattern=r"^(https?://.*)?$", repr=False)
    mail_to: tuple[str, ...] = ()
    mail_from: str = "sluice@localhost"
    smtp_host: str = "127.0.0.1"
    smtp_port: int = 25
    smtp_user: str = ""
    smtp_password: str = Field("", repr=False)
    smtp_starttls: bool = False

    @property
    def given(self) -> bool:
        """Whether anybody is to be told."""
        return bool(self.webhook or self.mail_to)


class Metrics(BaseModel):
    path: str = "include/metrics"


#: The same loader in C, if PyYAML has it: each command and each test reads the settings.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Yaml(PydanticBaseSettingsSource):
    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        return dict(yaml.load(SETTINGS_FILE.read_text(), _Loader))  # noqa: S506 - a SafeLoader


class _Given(EnvSettingsSource):
    """The secrets that were given as environment variables and are in files now (`runtime.given_secrets`)."""

    def __init__(self, settings_cls: type[BaseSettings], home: Path) -> None:
        self._home = home
        super().__init__(settings_cls)

    def _load_env_vars(self) -> dict[str, str | None]:
        return {name.lower(): value for name, value in given_secrets.read(self._home).items()}


class Settings(BaseSettings):
    """All settings of one instance.

    Later sources win: defaults, settings.yaml, secrets that were given (`runtime.given_secrets`), the
    environment, arguments.
    """

    model_config = SettingsConfigDict(
        env_prefix="SLUICE_", env_nested_delimiter="__", extra="forbid", frozen=True
    )

    instance: str = DEFAULT_INSTANCE
    home: Path = Path()
    root: Path = ROOT
    inherit: tuple[str, ...] = ()  # further variables of the starter's environment that all processes get
    bind_host: str = LOOPBACK  # where all daemons listen
    hadoop_host: str = ""  # where HADOOP alone listens, for jobs on other hosts; empty: bind_host
    hosts: dict[str, str] = {}
    port_base: int = 0
    port_bases: dict[str, int] = {}
    port_offsets: dict[str, int] = {}
    network: Literal["auto", "private", "host"] = "auto"
    doors: tuple[str, ...] = ()
    tls: Tls = Tls()
    #: Each store writes to disk before it answers, so a power cut takes nothing that was answered.
    sync_writes: bool = True
    external: frozenset[str] = frozenset()
    kafka: Kafka = Kafka()
    hdfs: Hdfs = Hdfs()
    hbase: HBase = HBase()
    hive: Hive = Hive()
    postgres: Postgres = Postgres()
    heaps: Heaps = Heaps()
    spark: Spark = Spark()
    airflow: Airflow = Airflow()
    speed: Speed = Speed()
    archive: Archive = Archive()
    limits: Limits = Limits()
    sql: Sql = Sql()
    metrics: Metrics = Metrics()
    retention: Retention = Retention()
    notifications: Notifications = Notifications()
    api: Api = Api()
    login: Login = Login()
    placement: Placement = Placement()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        arguments = init_settings.init_kwargs if isinstance(init_settings, InitSettingsSource) else {}
        home = arguments.get("home") or os.environ.get("SLUICE_HOME")
        home = Path(home or ROOT / "var" / (arguments.get("instance") or current_instance()))
        return init_settings, env_settings, _Given(settings_cls, home), _Yaml(settings_cls)

    @property
    def private(self) -> bool:
        """Whether the daemons run in a network of the instance's own (stack/network)."""
        return self.network == "private" or (self.network == "auto" and not self._elsewhere())

    def _elsewhere(self) -> list[str]:
        """The settings by which a daemon runs on another machine, or is reached from one."""
        found = {
            "external": bool(self.external),
            "hosts": bool(self.hosts),
            "bind_host": self.bind_host != LOOPBACK,
            "hadoop_host": self.hadoop_host not in ("", LOOPBACK),
            "spark.master": not self.spark.master.startswith("local"),
        }
        return [name for name, given in found.items() if given]

    def speaks_tls(self, door: str) -> bool:
        """Whether the door, which is one of TLS_DOORS, is the instance's own and speaks TLS."""
        return door not in self.external and _tls(self.tls.mode, self.bind_host)

    def port(self, name: str) -> int:
        return self.port_base + self.port_offsets[name]

    def listens(self, daemon: str) -> str:
        """The address at which the daemon listens."""
        return (self.hadoop_host if daemon in HADOOP else "") or self.bind_host

    def host(self, daemon: str) -> str:
        """The host at which the other daemons reach this one."""
        return self.hosts.get(daemon) or self.listens(daemon)

    @field_validator("hadoop_host")
    @classmethod
    def _address(cls, given: str) -> str:
        try:
            usable = not given or not ipaddress.IPv4Address(given).is_unspecified
        except ValueError:
            usable = False
        if not usable:
            raise ValueError(
                f"{given!r} is no address that jobs on other hosts could be told: give one IPv4 address of "
                "this machine, such as 10.0.0.1, or leave it out"
            )
        return given

    @model_validator(mode="after")
    def _check_network(self) -> Settings:
        if unknown := [name for name in self.doors if name not in self.port_offsets]:
            known = ", ".join(self.port_offsets)
            raise ValueError(f"doors: {unknown[0]!r} is no port: the ports are {known}")
        if self.network == "private" and (elsewhere := self._elsewhere()):
            needs = f"{elsewhere[0]} needs other machines"
            raise ValueError(f"network: 'private' does not go with other settings: {needs}. Say auto or host")
        if self.speaks_tls("airflow") and not self.airflow.url.startswith("https:"):
            raise ValueError(
                f"airflow.url: {self.airflow.url!r}, but Airflow speaks TLS: begin it with https:, or say "
                "tls: {mode: off}"
            )
        if self.private and self.notifications.given and "postgres" not in self.doors:
            raise ValueError("doors: notifications are sent from the host, so 'postgres' must be a door")
        return self

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Derive the directory, ports and addresses that were not given from the instance."""
        data = dict(data)
        instance = data.setdefault("instance", current_instance())
        home = Path(data.setdefault("home", ROOT / "var" / instance))
        bases = data.get("port_bases", {})
        base = int(data.get("port_base") or bases.get(instance, 0))
        if not base:
            raise UnknownInstance(
                f"instance {instance!r} has no port base: the instances are {', '.join(bases)}. To have "
                f"another, add it to port_bases in {SETTINGS_FILE.name} or set SLUICE_PORT_BASE"
            )
        data["port_base"] = base
        hosts = data.get("hosts") or {}
        hosts = json.loads(hosts) if isinstance(hosts, str) else hosts

        def host(daemon: str) -> str:
            own = data.get("hadoop_host") if daemon in HADOOP else ""
            return str(hosts.get(daemon) or own or data.get("bind_host", LOOPBACK))

        def at(name: str) -> int:
            return base + int(data["port_offsets"][name])

        def section(name: str, **defaults: Any) -> None:
            given = data.get(name) or {}
            given = given if isinstance(given, dict) else given.model_dump()
            data[name] = {**defaults, **{k: v for k, v in given.items() if v not in ("", 0, None)}}

        section(
            "kafka", bootstrap=f"{host('kafka')}:{at('kafka')}", identity_key=read_secret(home, "identity")
        )
        section(
            "hdfs",
            namenode=f"hdfs://{host('namenode')}:{at('namenode')}",
            webhdfs=f"http://{host('namenode')}:{at('namenode_http')}",
        )
        section("hbase", host=host("hbase-thrift"), port=at("hbase_thrift"))
        section(
            "hive",
            metastore=f"thrift://{host('metastore')}:{at('metastore')}",
            host=host("sql"),
            port=at("sql"),
            password=read_secret(home, "sql"),
        )
        section(
            "postgres", host=host("postgres"), port=at("postgres"), password=read_secret(home, "postgres")
        )
        _fill_roles(data["postgres"], home, external="postgres" in (data.get("external") or ()))
        _fill_doors(data, home, f"{host('airflow-api')}:{at('airflow')}")
        return data


def _fill_doors(data: dict[str, Any], home: Path, airflow: str) -> None:
    """Derive Airflow's address, and by which authority the doors are checked. airflow: its host and port."""
    tls = data.get("tls") or {}
    mode = tls.get("mode", "auto") if isinstance(tls, dict) else tls.mode
    secured = _tls(mode, data.get("bind_host", LOOPBACK))
    for door, name in (("airflow", "airflow"), ("sql", "hive"), ("postgres", "postgres")):
        section = data.get(name) or {}
        section = section if isinstance(section, dict) else section.model_dump()
        given = {field: value for field, value in section.items() if value not in ("", None)}
        own = secured and door not in (data.get("external") or ())
        trusted = home / (DATABASE_TRUSTED if door == "postgres" else TRUSTED)
        data[name] = {"root_certificate": str(trusted) if own else "", **given}
        if name == "airflow":
            data[name] = {"url": f"{'https' if own else 'http'}://{airflow}", **data[name]}


def _tls(mode: object, bind_host: str) -> bool:
    """Whether doors that listen at this address speak TLS."""
    if mode == "auto":
        address = _ip(bind_host)
        return not (bind_host == "localhost" or (address is not None and address.is_loopback))
    return mode in ("on", True)


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _fill_roles(postgres: dict[str, Any], home: Path, *, external: bool) -> None:
    """Derive the roles of the other databases: an external server has the one that was given for all."""
    for name in ("airflow", "metastore"):
        own = {"user": name, "password": read_secret(home, f"postgres_{name}")}
        if external:
            own = {field: postgres.get(field) or Postgres.model_fields[field].default for field in own}
        role = postgres.get(name) or {}
        role = role if isinstance(role, dict) else role.model_dump()
        postgres[name] = {**own, "database": name, **{field: value for field, value in role.items() if value}}


def current_instance() -> str:
    """The instance named by the environment, else the one brought up last, else ``main``."""
    named = os.environ.get("SLUICE_INSTANCE")
    marker = ROOT / "var" / "current"
    if named:
        return named
    return marker.read_text().strip() if marker.exists() else DEFAULT_INSTANCE


def given() -> dict[str, str]:
    """The environment variables that override settings; an instance's processes inherit them."""
    names = {f"SLUICE_{name.upper()}" for name in Settings.model_fields}
    names -= {"SLUICE_INSTANCE", "SLUICE_HOME", "SLUICE_ROOT"}  # these say which instance it is
    return {
        name: value
        for name, value in os.environ.items()
        if name in names or (name.startswith("SLUICE_") and "__" in name)
    }


def metrics_folder() -> Path:
    """The folder of a team's own metrics.

    It is read without an instance, because the metrics are needed before there are settings.
    """
    path = os.environ.get("SLUICE_METRICS__PATH")
    if not path:
        given = yaml.safe_load(SETTINGS_FILE.read_text()) if SETTINGS_FILE.exists() else {}
        path = Metrics(**given.get("metrics", {})).path
    return ROOT / path


def read_secret(home: Path, name: str) -> str:
    path = home / "secrets" / name
    return path.read_text().strip() if path.exists() else ""


def make_secret(home: Path, name: str) -> str:
    """The instance's secret of that name; the first call makes it, in a file of mode 0600."""
    path = home / "secrets" / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = path.with_name(f".{name}.{secrets.token_hex(4)}")
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(secrets.token_urlsafe(32))
        with contextlib.suppress(FileExistsError):  # another process was first, and its secret is used
            os.link(temporary, path)
        temporary.unlink()
    return path.read_text().strip()


@functools.lru_cache(maxsize=1)
def get_settings() -> Settings:
    """This process's settings, read once."""
    return Settings()


def newest(before: Settings) -> Settings:
    """The settings as settings.yaml says now; `before` while it cannot be read, as when it is being edited.

    For processes that run for ever and follow a setting. A job on another host has the file TOLD in its home:
    that says what settings.yaml says here.
    """
    try:
        path = before.home / TOLD
        told = json.loads(path.read_text()) if path.exists() else {}
        return Settings(instance=before.instance, home=before.home, **told)
    except (OSError, ValueError, TypeError, yaml.YAMLError):
        return before


def followed(settings: Settings) -> str:
    """The settings that jobs follow while they run, as the content of the file TOLD."""
    return json.dumps({"speed": {"drivers": settings.speed.drivers}})
