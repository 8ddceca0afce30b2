"""The one list of daemons: for supervisor, docker-compose.yaml, ``sluice status``, tests."""

from __future__ import annotations

from sluice.runtime.settings import Settings
from sluice.stack.daemon import Daemon
from sluice.stack.daemons import airflow, hbase, hdfs, hive, kafka, postgres

DAEMONS: dict[str, Daemon] = {
    daemon.name: daemon
    for daemon in (
        postgres.POSTGRES,
        kafka.KAFKA,
        hdfs.NAMENODE,
        hdfs.DATANODE,
        hbase.HBASE,
        hbase.HBASE_THRIFT,
        hive.METASTORE,
        hive.SQL,
        airflow.API,
        airflow.SCHEDULER,
        airflow.DAG_PROCESSOR,
        airflow.TRIGGERER,
    )
}
SERVICES = tuple(dict.fromkeys(daemon.service for daemon in DAEMONS.values()))


class UnknownDaemon(KeyError):
    """There is no daemon of that name."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"there is no daemon {self.name!r}: the daemons are {', '.join(DAEMONS)}"


class UnknownService(ValueError):
    """--external names something that the stack does not have."""


def daemon(name: str) -> Daemon:
    if name not in DAEMONS:
        raise UnknownDaemon(name)
    return DAEMONS[name]


def own(settings: Settings) -> list[Daemon]:
    """The daemons that the instance runs itself, each after what it depends on."""
    return [daemon for daemon in in_order() if daemon.service not in settings.external]


def dependencies(settings: Settings, daemon: Daemon) -> list[str]:
    """The daemons that this one waits for; of an external service, only those for clients."""
    return [
        name
        for name in daemon.depends_on
        if DAEMONS[name].for_clients or DAEMONS[name].service not in settings.external
    ]


def in_order() -> list[Daemon]:
    """All daemons, each after what it depends on."""
    ordered: dict[str, Daemon] = {}

    def visit(daemon: Daemon) -> None:
        for name in daemon.depends_on:
            visit(DAEMONS[name])
        ordered.setdefault(daemon.name, daemon)

    for each in DAEMONS.values():
        visit(each)
    return list(ordered.values())


def external(names: str) -> frozenset[str]:
    """The services of a comma-separated list. Raises UnknownService."""
    wanted = frozenset(name.strip() for name in names.split(",") if name.strip())
    if unknown := sorted(wanted - set(SERVICES)):
        raise UnknownService(f"--external {', '.join(unknown)}: the services are {', '.join(SERVICES)}")
    return wanted
