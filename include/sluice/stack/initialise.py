"""Creates what must exist before anything is counted.

These are databases, topics, tables and directories. Every step can be repeated: it leaves what already exists
as it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from sluice.runtime.settings import Settings
from sluice.stack import databases, releases

#: A step of filling, and the daemons that it talks to.
Step = tuple[Callable[[Settings], None], tuple[str, ...]]

# A metastore that has just started may lose a query to its own database; it then says that the Hive database
# does not exist. The next query finds it.
HIVE_TRIES = 3
HIVE_PAUSE_SECONDS = 2.0


def database(settings: Settings) -> None:
    from sluice.stack import journal
    from sluice.storage.postgres import migrate, require_known

    databases.create(settings, settings.postgres)
    require_known(settings)
    releases.keep_older_out(settings)
    migrate(settings)
    journal.take_in(settings)


def topic(settings: Settings, name: str = "logs") -> None:
    """Create the topic; one that exists keeps its partitions."""
    from sluice.transmission.topics import Topics

    with Topics(settings) as topics:
        topics.create(name)


def directories(settings: Settings) -> None:
    """Create the root directories of the archive and the warehouse in HDFS."""
    from sluice.storage.hdfs import HdfsStore

    store = HdfsStore.of(settings)
    for path in (settings.hdfs.raw, settings.hdfs.warehouse):
        store.make_directory(path)


def tables(settings: Settings) -> None:
    from sluice.storage.hbase import ensure_tables

    ensure_tables(settings)


def hive_tables(settings: Settings) -> None:
    """Create Hive's tables; until the first night queries find them empty instead of missing."""
    from sluice.storage.hive import Hive, SqlFailed

    for left in reversed(range(HIVE_TRIES)):
        try:
            with Hive(settings) as hive:
                hive.ensure_tables()
            break
        except SqlFailed:
            if not left:
                raise
            time.sleep(HIVE_PAUSE_SECONDS)


def hive_days(settings: Settings) -> None:
    """Give Hive's tables the days back that they lost: a table that was dropped is made without any."""
    from sluice.storage.hive import Hive
    from sluice.storage.partitions import restore

    with Hive(settings) as hive:
        restore(hive)


def connections(settings: Settings) -> None:
    """Give Airflow the settings' connections, unless it is external."""
    from sluice.stack.airflow.rest_api import Airflow
    from sluice.stack.airflow.stored_connections import give

    if "airflow" not in settings.external:
        with Airflow(settings) as airflow:
            give(settings, airflow)


#: In the order in which the daemons become healthy.
STEPS: tuple[Step, ...] = (
    (database, ("postgres",)),
    (topic, ("kafka",)),
    (directories, ("namenode",)),
    (hive_tables, ("metastore", "sql")),
    (hive_days, ("postgres", "namenode", "metastore", "sql")),
    (connections, ("airflow-api",)),
    (tables, ("hbase-thrift",)),
)
