"""The sections of an instance's settings (`runtime.settings`), as include/settings.yaml names them."""

from __future__ import annotations

import ipaddress
import re
from typing import Any, Literal
from urllib.parse import quote

from pydantic import BaseModel, Field, field_validator, model_validator

from sluice.runtime.nearest import nearest_or_all

_NAME = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,62}))*")


class SettingsSection(BaseModel, extra="forbid"):
    """Settings that belong together; a name that it does not have is refused, because it is misspelt."""

    @model_validator(mode="before")
    @classmethod
    def _check_names(cls, given: Any) -> Any:
        for name in given if isinstance(given, dict) else ():
            if name not in cls.model_fields:
                remedy = nearest_or_all(str(name), cls.model_fields, "settings here")
                raise ValueError(f"{name}: there is no such setting: {remedy}")
        return given


class KafkaLogin(SettingsSection, frozen=True):
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


class Kafka(SettingsSection, frozen=True):
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


class Hdfs(SettingsSection):
    namenode: str = ""
    webhdfs: str = ""
    user: str = "sluice"
    raw: str = "/sluice/raw"
    warehouse: str = "/sluice/warehouse"


class HBase(SettingsSection):
    host: str = ""
    port: int = 0


class Hive(SettingsSection):
    metastore: str = ""
    host: str = ""
    port: int = 0
    root_certificate: str = ""  # a file: with it, TLS to an endpoint whose certificate this authority signed
    user: str = "sluice"
    password: str = Field("", repr=False)
    auth: Literal["CUSTOM", "LDAP", "NONE", "NOSASL"] = "CUSTOM"  # HiveServer2's names for it
    database: str = "sluice"


class DatabaseRole(SettingsSection):
    """A role of PostgreSQL and the one database that it owns."""

    user: str = ""
    password: str = Field("", repr=False)
    database: str = ""


class Postgres(SettingsSection):
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


class Heaps(SettingsSection):
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


class Spark(SettingsSection):
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


class Airflow(SettingsSection):
    url: str = ""
    user: str = "admin"
    root_certificate: str = ""  # a file with the authority for an https `url`; empty: this system's own


class Tls(SettingsSection):
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
            if not _NAME.fullmatch(name) and not ip_address(name):
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


class Speed(SettingsSection):
    batch_seconds: float = Field(0.7, gt=0)  # from the begin of a batch to that of the next, at least
    batch_bytes: int = Field(64 << 20, ge=1 << 20)  # of lines in a batch, about
    small_batch: int = Field(2_000, ge=0)  # a batch of fewer lines, about, is counted in the driver
    projection_seconds: float = Field(0.5, gt=0)  # the least time between two writes of results
    workers: int = Field(0, ge=0, le=1 << 16)  # for routed tasks; 0: as many as run at the same time
    drivers: int = Field(1, ge=1, le=64)  # processes that share the topics


class Archive(SettingsSection):
    max_lines: int = Field(300_000, ge=1)
    max_age_seconds: float = Field(15.0, gt=0)
    members: int = Field(0, ge=0, le=64)  # archivers at most; 0: half as many as the machine has cores
    merged_bytes: int = Field(128 << 20, ge=1 << 20, le=1 << 30)  # of a file that compaction makes, at most
    replaced_hours: float = Field(24.0, ge=1)  # that files are kept for readers after they were merged


class Limits(SettingsSection):
    line_bytes: int = 1 << 20
    unpacked_log_bytes: int = Field(0, ge=0)  # of a packed log to replay; 0: 100 times its size, or 64 MiB
    series: int = Field(100_000, gt=0)  # of a task version in one period; with more, the task is set aside
    #: Free on each disk, and at most a quarter of it; below, intake stops.
    reserve_bytes: int = Field(2 << 30, ge=64 << 20)


class Sql(SettingsSection):
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


class Retention(SettingsSection):
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


class Placement(SettingsSection):
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


class Api(SettingsSection):
    """Sluice's REST API."""

    viewers_see_keys: bool = False  # hot keys may be clients' addresses


class Notifications(SettingsSection):
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


class Metrics(SettingsSection):
    path: str = "include/metrics"
    seconds: float = Field(60.0, gt=0)  # a metric of the team has for what is asked of it at once
    memory_bytes: int = Field(512 << 20, ge=32 << 20)  # its process has, besides what it is made of


def ip_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address, or None if the text is none."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
