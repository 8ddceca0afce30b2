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
import secrets
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from sluice.runtime import given_secrets
from sluice.runtime.login_settings import Login
from sluice.runtime.sections import (
    Airflow,
    Api,
    Archive,
    HBase,
    Hdfs,
    Heaps,
    Hive,
    Kafka,
    Limits,
    Metrics,
    Notifications,
    Placement,
    Postgres,
    Retention,
    Spark,
    Speed,
    Sql,
    Tls,
    ip_address,
)

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


class UnknownInstance(ValueError):
    """The instance has no port base of its own."""


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
        address = ip_address(bind_host)
        return not (bind_host == "localhost" or (address is not None and address.is_loopback))
    return mode in ("on", True)


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


def metrics_settings() -> Metrics:
    """What is set of a team's own metrics.

    It is read without an instance, because the metrics are needed before there are settings.
    """
    given = yaml.load(SETTINGS_FILE.read_text(), _Loader) if SETTINGS_FILE.exists() else {}  # noqa: S506 - a SafeLoader
    own = {name: os.environ.get(f"SLUICE_METRICS__{name.upper()}") for name in Metrics.model_fields}
    return Metrics(**{**given.get("metrics", {}), **{name: text for name, text in own.items() if text}})


def metrics_folder() -> Path:
    """The folder of a team's own metrics."""
    return ROOT / metrics_settings().path


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
