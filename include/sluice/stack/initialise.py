"""What the daemons must hold before anything is counted: databases, topics, tables, directories.

Every step can be repeated: it leaves what is already there.
"""

from __future__ import annotations

from collections.abc import Callable

from sluice.runtime.settings import Settings
from sluice.stack import databases

#: A step of filling, and the daemons that it talks to.
Step = tuple[Callable[[Settings], None], tuple[str, ...]]


def database(settings: Settings) -> None:
    from sluice.storage.postgres import migrate

    databases.create(settings, settings.postgres.database)
    migrate(settings)


def topic(settings: Settings, name: str = "logs") -> None:
    """The topic; one that exists is left as it is, with its partitions."""
    from sluice.transmission.topics import Topics

    with Topics(settings) as topics:
        topics.create(name)


def directories(settings: Settings) -> None:
    """The archive's and the warehouse's root directory in HDFS."""
    from sluice.storage.hdfs import HdfsStore

    store = HdfsStore.of(settings)
    for path in (settings.hdfs.raw, settings.hdfs.warehouse):
        store.make_directory(path)


def tables(settings: Settings) -> None:
    from sluice.storage.hbase import ensure_tables

    ensure_tables(settings)


def hive_tables(settings: Settings) -> None:
    """Queries find empty tables, instead of none, until the first night."""
    from sluice.storage.hive import Hive

    with Hive(settings) as hive:
        hive.ensure_tables()


def connections(settings: Settings) -> None:
    """The settings' connections, into an Airflow of our own."""
    from sluice.stack.airflow_api import Airflow
    from sluice.stack.airflow_connections import give

    if "airflow" not in settings.external:
        with Airflow(settings) as airflow:
            give(settings, airflow)


#: In the order in which the daemons become healthy.
STEPS: tuple[Step, ...] = (
    (database, ("postgres",)),
    (topic, ("kafka",)),
    (directories, ("namenode",)),
    (hive_tables, ("sql",)),
    (connections, ("airflow-api",)),
    (tables, ("hbase-thrift",)),
)
