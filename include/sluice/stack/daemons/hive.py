"""Hive's metastore over PostgreSQL, and the SQL endpoint: Spark's Thrift Server."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from psycopg2.sql import SQL as Statement
from psycopg2.sql import Identifier

from sluice.runtime.files import write_whole
from sluice.runtime.jvm import SPARK_ANYWHERE, SPARK_OPTIONS, java_command
from sluice.runtime.settings import Settings
from sluice.stack import databases, health, templating, tls, users
from sluice.stack.daemon import Command, Daemon
from sluice.stack.daemons.hdfs import hadoop_conf
from sluice.stack.environment import spark_authentication, spark_conf, spark_defaults, spark_home
from sluice.stack.jars import AGENT, AGENT_USES, ENDPOINT, require

OPENS = tuple(
    f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.lang", "java.net", "java.util")
)
#: Spark looks in Python's path for modules `pyspark_*`, each with a data source. Every Python process loads
#: the other module: the one from which planners are forked then loads what they need (`sluice.sql.planner`).
PYTHON_MODULES = {
    "pyspark_sluice.py": "from sluice.sql.data_source import ResultsSource as DefaultSource\n",
    "sitecustomize.py": (
        "import sys\n\n"
        'if "pyspark.sql.worker.data_source_pushdown_filters" in sys.orig_argv:\n'
        "    import sluice.sql.planner\n"
    ),
}
#: The endpoint's memory: results come a part at a time, and nothing of past statements is kept for a page
#: that nobody sees.
BOUNDED = {
    "spark.sql.thriftServer.incrementalCollect": "true",
    "spark.driver.maxResultSize": "128m",
    "spark.sql.maxBroadcastTableSize": "64m",
    "spark.sql.maxPlanStringLength": "16384",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.sql.thriftserver.ui.retainedSessions": "50",
    "spark.sql.thriftserver.ui.retainedStatements": "50",
}
#: Statements are computed in processes of their own, one task at a time: a task that does not heed that it
#: was stopped is ended with its process. A task that failed is not tried again, as in Spark's local mode.
EXECUTORS = {
    "spark.executor.cores": "1",
    "spark.task.maxFailures": "1",
    "spark.scheduler.revive.interval": "250ms",
    # For a cluster of others; here Processes.java does it, also if the process is too busy to hear.
    "spark.task.reaper.enabled": "true",
    "spark.task.reaper.killTimeout": "10s",
    "spark.task.reaper.threadDump": "false",
    # Only cheap values are computed while a statement is planned (Folding.java).
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{rule}"
        for rule in ("ConstantFolding", "ConvertToLocalRelation")
    ),
}
#: The archive's files that a merged one has replaced are not read (StandingFiles.java). It looks by itself at
#: all directories of a table, as tasks have no such filter.
STANDING = {
    "spark.hadoop.mapreduce.input.pathFilter.class": "sluice.sql.StandingFiles",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
}
#: A process that is mostly garbage fails, instead of looking for memory for minutes. Only this collector does
#: so; JAVA_TOOL_OPTIONS may have chosen another one, and Java takes no two.
_EXECUTOR_OPTIONS = (
    *("-XX:-UseSerialGC", "-XX:-UseG1GC", "-XX:+UseParallelGC", "-XX:ParallelGCThreads=1"),
    *("-XX:GCTimeLimit=80", "-XX:GCHeapFreeLimit=10"),
    *("-XX:MaxMetaspaceSize=256m", "-Xss1m"),
)
#: Where the metastore's database has locations: tables, and their columns with URLs.
_LOCATIONS = (
    ("CTLGS", "LOCATION_URI"),
    ("DBS", "DB_LOCATION_URI"),
    ("SDS", "LOCATION"),
    ("SERDE_PARAMS", "PARAM_VALUE"),
)
_RELOCATE = Statement(
    "UPDATE {} SET {at} = regexp_replace({at}, %(own)s, %(new)s || '/') "
    "WHERE {at} ~ %(own)s AND NOT starts_with({at}, %(new)s || '/')"
)
SCHEMA = "**/scripts/metastore/upgrade/postgres/hive-schema-3.1.0.postgres.sql"


def configure_metastore(settings: Settings) -> None:
    conf = hadoop_conf(settings, settings.home / "conf" / "metastore")
    templating.write(settings, "metastore-site.xml", conf / "metastore-site.xml")


def create_schema(settings: Settings) -> None:
    """Create the schema that comes with the metastore, unless it is there.

    It is created in one transaction, so a start that is cut short leaves nothing of it.
    """
    own = settings.postgres.of(settings.postgres.metastore)
    databases.create(settings, own)
    with databases.locked(own) as cursor:
        cursor.execute("SELECT to_regclass('public.\"VERSION\"')")
        if cursor.fetchone() == (None,):
            cursor.execute(next(require("metastore").glob(SCHEMA)).read_text())


def follow_namenode(settings: Settings) -> None:
    """Let the tables' locations name the built-in NameNode's address of now, after a setting changed it."""
    if "hdfs" not in settings.external:
        with databases.locked(settings.postgres.of(settings.postgres.metastore)) as cursor:
            relocate(cursor, settings.hdfs.namenode)


def relocate(cursor: Any, namenode: str, before: str = "") -> None:
    """Write the NameNode's URL into each location at its port, whatever the host there is.

    Only the instance's own NameNode has a port of its range; that of an external HDFS stays. before: the URL
    of a NameNode that had another port.
    """
    own = rf"^hdfs://[^/:]+:{urlsplit(before or namenode).port}/"
    for table, column in _LOCATIONS:
        statement = _RELOCATE.format(Identifier(table), at=Identifier(column))
        cursor.execute(statement, {"new": namenode, "own": own})


def metastore(settings: Settings) -> Command:
    port = str(settings.port("metastore"))
    agent = require("metastore") / AGENT
    return Command(
        java_command(
            "metastore",
            "org.apache.hadoop.hive.metastore.HiveMetaStore",
            ["-p", port],
            heap=settings.heaps.metastore,
            options=[*OPENS, AGENT_USES, f"-javaagent:{agent}={settings.bind_host}"],
            classpath=[settings.home / "conf" / "metastore", agent],  # classes in the place of Hive's
            quick=True,
        )
    )


def configure_spark(settings: Settings) -> None:
    """Write Spark's configuration, for the SQL endpoint, the jobs and sessions in any process."""
    conf = spark_conf(settings)
    for name in ("core-site.xml", "hdfs-site.xml", "hive-site.xml"):
        templating.write(settings, name, conf / name)
    templating.write(
        settings,
        "spark-defaults.conf",
        spark_defaults(settings),
        authentication=spark_authentication(settings),
        driver_options=" ".join(_driver_options(settings)),
        executor_options=" ".join(SPARK_ANYWHERE),
    )
    templating.write(settings, "spark-log4j2.properties", conf / "log4j2.properties")
    for scratch in ("spark", "hive"):
        (settings.home / "tmp" / scratch).mkdir(parents=True, exist_ok=True)


def configure_python(settings: Settings) -> None:
    """Write the modules through which the SQL endpoint finds the results' data source."""
    folder = python_modules(settings)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in PYTHON_MODULES.items():
        write_whole(folder / name, text)


def python_modules(settings: Settings) -> Path:
    """A directory in the Python path of the endpoint's Python processes alone."""
    return settings.home / "conf" / "sql-python"


def _driver_options(settings: Settings) -> list[str]:
    # In /tmp anybody could read a session's copies of jars and other files.
    scratch = settings.home / "tmp" / "spark"
    return [*SPARK_OPTIONS, shlex.quote(f"-Djava.io.tmpdir={scratch}")]


def sql(settings: Settings) -> Command:
    options = ["-XX:+UseSerialGC", "-XX:MaxMetaspaceSize=256m", "-XX:ReservedCodeCacheSize=96m", "-Xss1m"]
    known = settings.home / "secrets" / users.FILE
    hadoop_user = f"-DHADOOP_USER_NAME={settings.hdfs.user}"
    options += [hadoop_user, f"-Dsluice.users={known}"]
    executor_options = [*_driver_options(settings), *_EXECUTOR_OPTIONS, hadoop_user]
    if settings.speaks_tls("sql"):
        store = tls.folder(settings) / tls.STORE
        options += [f"-Dsluice.tls={store}", "-Djdk.tls.rejectClientInitiatedRenegotiation=true"]
    return Command(
        [
            str(spark_home() / "bin" / "spark-submit"),
            *("--properties-file", str(spark_defaults(settings))),
            *("--master", _master(settings)),
            *("--driver-memory", settings.spark.sql_memory),
            *("--conf", f"spark.executor.memory={settings.spark.sql_task_memory}"),
            *("--name", "sluice-sql"),
            *("--conf", f"spark.driver.host={settings.host('sql')}"),
            *("--driver-java-options", " ".join([*_driver_options(settings), *options])),
            *("--conf", "spark.scheduler.mode=FAIR"),
            *("--conf", "spark.sql.extensions=sluice.sql.Guard"),
            *("--conf", f"spark.sluice.sql.owner={settings.hive.user}"),
            *_confs({f"spark.sluice.sql.{name}": value for name, value in settings.sql.model_dump().items()}),
            *_confs({**BOUNDED, **EXECUTORS, **STANDING}),
            *("--conf", f"spark.executor.extraJavaOptions={' '.join(executor_options)}"),
            *("--conf", "spark.sql.runSQLOnFiles=false"),
            # Otherwise ${env:NAME} in a statement is replaced by the server's own variable.
            *("--conf", "spark.sql.variable.substitute=false"),
            *("--conf", "spark.sql.python.filterPushdown.enabled=true"),
            *("--conf", "spark.sql.execution.pyspark.udf.hideTraceback.enabled=true"),
            *("--conf", "spark.python.daemon.module=sluice.sql.worker_daemon"),
            # Otherwise each session would have Python processes of its own, which stay when it is closed.
            *("--conf", "spark.sql.artifact.isolation.enabled=false"),
            *("--class", "sluice.sql.Endpoint"),
            "spark-internal",
        ],
        # Spark puts this at the end of the class path. At the beginning, no class archive would fit.
        env={
            "SPARK_DIST_CLASSPATH": str(require("spark") / ENDPOINT),
            "PYTHONPATH": os.pathsep.join([str(python_modules(settings)), *_given("PYTHONPATH")]),
        },
        # Hive would impersonate the user in this variable, which HDFS refuses. Both accept the property.
        unset=("HADOOP_USER_NAME",),
    )


def _master(settings: Settings) -> str:
    """On one machine two processes are enough, however many threads the jobs have (Cluster.java)."""
    return "local-processes[2]" if settings.spark.master.startswith("local") else settings.spark.master


def _confs(values: Mapping[str, object]) -> list[str]:
    return [word for name, value in values.items() for word in ("--conf", f"{name}={value}")]


def _given(variable: str) -> list[str]:
    """The variable's value, if it has one."""
    return [os.environ[variable]] if os.environ.get(variable) else []


METASTORE = Daemon(
    name="metastore",
    service="metastore",
    ports=("metastore",),
    depends_on=("postgres",),
    prepare=(configure_metastore, create_schema, follow_namenode),
    command=metastore,
    health=health.metastore,
)
SQL = Daemon(
    name="sql",
    service="sql",
    ports=("sql",),
    depends_on=("metastore", "namenode"),
    prepare=(users.prepare_users, tls.prepare_tls, configure_spark, configure_python),
    command=sql,
    health=health.sql,
)
