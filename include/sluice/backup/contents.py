"""What a backup consists of. Importing this starts no thread: a restore enters a network later."""

from __future__ import annotations

from sluice.runtime.settings import Settings
from sluice.stack.daemons import postgres

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
#: In the instance's directory from the first step to the last one of a restore, and of a recovery without a
#: backup.
MARKER, RECOVERING = postgres.MADE_AGAIN
#: PostgreSQL's data, in the instance's directory.
DATABASE = "data/postgres"


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


class RecoveryUnfinished(RuntimeError):
    """An instance has a part of its database again."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"instance {name!r} is half recovered, because a recovery was cut short. Repeat `sluice "
            f"--instance {name} recover`, which goes on"
        )


def require_own(settings: Settings) -> None:
    """Raise ExternalService if a service that a backup needs runs elsewhere."""
    if outside := settings.external & OWN:
        raise ExternalService(outside)


def require_restored(settings: Settings) -> None:
    """Raise RestoreUnfinished if a restore of the instance began and did not end."""
    if (settings.home / MARKER).exists():
        raise RestoreUnfinished(settings.instance)


def require_whole(settings: Settings) -> None:
    """Raise RestoreUnfinished, RecoveryUnfinished or DatabaseLost for an instance that must not start."""
    require_restored(settings)
    if (settings.home / RECOVERING).exists():
        raise RecoveryUnfinished(settings.instance)
    if "postgres" not in settings.external:
        postgres.require_data(settings)
