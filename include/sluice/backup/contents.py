"""What a backup consists of. Importing this starts no thread: a restore enters a network later."""

from __future__ import annotations

from sluice.runtime.settings import Settings

#: A backup would lack what runs elsewhere, and a restore would not know where to put it.
OWN = frozenset({"postgres", "hdfs", "hbase", "metastore", "airflow"})
#: The databases, by the settings of their roles and in their order.
ROLES = ("sluice", "airflow", "metastore")
#: The metastore's schema, as `stack.daemons.hive` makes it.
METASTORE = "hive-schema-3.1.0"
#: The cells of HBase's tables, in the order in which they are copied, and those of the state that came since.
CELLS = {
    "results": "hbase/results.arrow",
    "finals": "hbase/finals.arrow",
    "state": "hbase/state.arrow",
}
SINCE = "hbase/state-since.arrow"
#: In the instance's directory from the first step of a restore to the last one.
MARKER = "restoring"


class ExternalService(ValueError):
    """Backups know only what an instance runs itself."""

    def __init__(self, services: frozenset[str]) -> None:
        super().__init__(
            f"external: {', '.join(sorted(services))} run elsewhere, and a backup has only what the instance "
            "runs itself: back them up by their own means, all as of one moment, with the platform stopped"
        )


class RestoreUnfinished(RuntimeError):
    """An instance has a part of a backup."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"instance {name!r} is half restored, because a restore was cut short. Repeat `sluice restore "
            f"SOURCE --instance {name}`, which begins anew, or delete what is there: `sluice --instance "
            f"{name} reset`"
        )


def require_own(settings: Settings) -> None:
    """Raise ExternalService if a service that a backup needs runs elsewhere."""
    if outside := settings.external & OWN:
        raise ExternalService(outside)


def require_whole(settings: Settings) -> None:
    """Raise RestoreUnfinished if a restore of the instance began and did not end."""
    if (settings.home / MARKER).exists():
        raise RestoreUnfinished(settings.instance)
