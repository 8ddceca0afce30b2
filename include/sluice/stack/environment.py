"""The environment of an instance's processes: daemons, Airflow's tasks, jobs, `sluice`."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from pathlib import Path

from sluice.runtime import inherited
from sluice.runtime.settings import Settings, read_secret
from sluice.stack.airflow.configuration import airflow_environment

# This variable marks the processes of a daemon, so that what a killed daemon left behind can be found.
DAEMON = "SLUICE_DAEMON"
SPARK_SECRET = "spark.authenticate.secret"  # noqa: S105 - the name of the property


def environment(settings: Settings) -> dict[str, str]:
    """The whole environment of what is Airflow's: its daemons, its commands and their children."""
    return {**own_environment(settings), **airflow_environment(settings)}


def own_environment(settings: Settings) -> dict[str, str]:
    """The whole environment of everything else: what it inherits, and the instance's variables."""
    return {**inherited.variables(), **_own(settings)}


def _own(settings: Settings) -> dict[str, str]:
    python = sys.executable
    defaults = shlex.quote(str(spark_defaults(settings)))
    own = {settings.hadoop_host, *settings.hosts.values()} - {""}
    hosts = ",".join(["127.0.0.1", "localhost", *sorted(own)])
    return {
        "SLUICE_INSTANCE": settings.instance,
        "PATH": os.pathsep.join([str(Path(python).parent), os.environ.get("PATH", os.defpath)]),
        "SPARK_HOME": str(spark_home()),
        # Not this instance's directory: it would come before the jars, and no class archive would fit.
        "SPARK_CONF_DIR": str(spark_home() / "conf"),
        "HADOOP_CONF_DIR": str(spark_conf(settings)),
        "PYSPARK_SUBMIT_ARGS": f"--properties-file {defaults} pyspark-shell",
        "HADOOP_USER_NAME": settings.hdfs.user,
        "SPARK_LOCAL_IP": settings.bind_host,
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        "NO_PROXY": hosts,
        "no_proxy": hosts,
        "TZ": "UTC",
        "GX_ANALYTICS_ENABLED": "False",
        # glibc gives each thread an arena of its own: a JVM with 100 threads would keep 100 MB more.
        "MALLOC_ARENA_MAX": "2",
    }


def spark_conf(settings: Settings) -> Path:
    """The directory that configures Spark, the Hadoop clients in it and its log."""
    return settings.home / "conf" / "spark"


def spark_defaults(settings: Settings) -> Path:
    """The instance's file of Spark properties, for --properties-file."""
    return spark_conf(settings) / "spark-defaults.conf"


def spark_authentication(settings: Settings) -> dict[str, str]:
    """The properties with which Spark's own ports accept only processes of the same application.

    On this machine, on YARN and on Kubernetes Spark makes a secret for each application. A standalone cluster
    has one secret, which its administrator chose: it is used once it is in ``secrets/spark``.
    """
    if settings.spark.master.startswith("local"):
        # Not encrypted: large results pass the driver's own port, and only root can listen in on loopback.
        return {"spark.authenticate": "true"}
    shared = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
    if not settings.spark.master.startswith("spark://"):
        return shared
    secret = read_secret(settings.home, "spark")
    return {**shared, SPARK_SECRET: secret} if secret else {"spark.authenticate": "false"}


def spark_home() -> Path:
    """The directory of pip's pyspark, found without importing it."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("pyspark is not installed in this environment: run `make setup`")
    return Path(spec.origin).parent
