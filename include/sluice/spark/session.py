"""The Spark session of both layers: on one machine by default, on any master by a setting.

With a master other than ``local`` the executors get this package as a zip. They need the same Python with the
packages of requirements.txt, at the same path as the driver's or where ``PYSPARK_PYTHON`` points.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.metrics.registry import team
from sluice.metrics.team import SHIPPED
from sluice.runtime import shipped
from sluice.runtime.settings import Settings
from sluice.stack.environment import SPARK_SECRET, spark_authentication

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: For the speed layer. It uses no Hive table: it must start and count without the metastore. And adaptive
#: execution would run the stages of its queries one by one and plan each anew.
SPEED_LAYER = {"spark.sql.catalogImplementation": "in-memory", "spark.sql.adaptive.enabled": "false"}
# A line may have up to 16 MiB, so a batch for Python is limited in bytes and in lines.
ARROW_LINES = 65_536
ARROW_BYTES = 64 << 20
# How often a task may fail before its job does; Spark's default on a cluster.
TASK_FAILURES = 4
# A master on this machine: how many threads it has, and how often a task may fail.
_LOCAL = re.compile(r"local(?:\[([^],]+)(,\d+)?\])?")
#: Arrow's allocator keeps freed memory for 1 s before it goes back to the system, not 10 ms: the next batch
#: uses it again, and the pass over 16 tasks takes a sixth less.
WORKER_ENV = {"spark.executorEnv.MIMALLOC_PURGE_DELAY": "1000"}


def session(settings: Settings, app: str, *, config: Mapping[str, str] | None = None) -> SparkSession:
    """The application's session; `config` has the job's own settings."""
    os.environ.setdefault("SPARK_LOCAL_IP", settings.bind_host)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("HADOOP_USER_NAME", settings.hdfs.user)
    os.environ["SLUICE_METRICS__PATH"] = str(team().write(settings.home / "spark"))
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app)
    for name, value in {**session_config(settings), **(config or {})}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    if not settings.spark.master.startswith("local"):
        # Not by spark.submit.pyFiles: the zip would hide the driver's own package, which has its data files.
        spark.sparkContext.addPyFile(str(package_zip(settings.home / "spark")))
    return spark


def session_config(settings: Settings) -> dict[str, str]:
    """Spark's configuration from the instance's settings."""
    home = settings.home / "spark"
    (home / "tmp").mkdir(parents=True, exist_ok=True)
    config = {
        "spark.master": repeating(settings.spark.master),
        "spark.driver.memory": settings.spark.driver_memory,
        "spark.driver.host": settings.bind_host,
        "spark.driver.bindAddress": settings.bind_host,
        "spark.local.dir": str(home / "tmp"),
        "spark.sql.warehouse.dir": settings.hdfs.namenode + settings.hdfs.warehouse,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.scheduler.mode": "FAIR",  # a topic with a large batch does not hold up the others
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_LINES),
        "spark.sql.execution.arrow.maxBytesPerBatch": str(ARROW_BYTES),
        "spark.executorEnv.SLUICE_METRICS__SECONDS": str(settings.metrics.seconds),
        "spark.executorEnv.SLUICE_METRICS__MEMORY_BYTES": str(settings.metrics.memory_bytes),
        **WORKER_ENV,
    }
    # A standalone cluster's secret is in spark-defaults.conf alone: these go onto a command line.
    config |= {name: value for name, value in spark_authentication(settings).items() if name != SPARK_SECRET}
    if settings.spark.master.startswith("local"):  # elsewhere the package comes only after the fork
        config["spark.python.daemon.module"] = "sluice.spark.worker_daemon"
    else:
        config["spark.executorEnv.NUMBA_CACHE_LOCATOR_CLASSES"] = ",".join(shipped.LOCATORS)
    return config


def slots(master: str) -> int | None:
    """How many tasks run side by side on this machine; None if only a session knows it."""
    threads = _LOCAL.fullmatch(master)
    return int(threads[1] or 1) if threads and (threads[1] or "1").isdecimal() else None


def repeating(master: str) -> str:
    """The master; on this machine a task that fails is repeated too, as on a cluster."""
    threads = _LOCAL.fullmatch(master)
    return f"local[{threads[1] or 1},{TASK_FAILURES}]" if threads and not threads[2] else master


def package_zip(folder: Path) -> Path:
    """This package and the team's metrics as a zip for the executors.

    Its name depends on its content, so an executor never gets an older one.
    """
    source = Path(__file__).resolve().parents[1]
    files = sorted(path for path in source.rglob("*") if path.suffix in {".py", ".typed", ".yaml"})
    contents = {str(path.relative_to(source)): path.read_bytes() for path in files}
    contents |= {f"metrics/{SHIPPED}/{name}": text.encode() for name, text in team().contents().items()}
    contents = {f"sluice/{name}": content for name, content in contents.items()} | shipped.compiled(source)
    digest = hashlib.sha256()
    for name, content in contents.items():
        digest.update(name.encode() + b"\0" + content + b"\0")
    target = folder / f"sluice-{digest.hexdigest()[:16]}.zip"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(f".{os.getpid()}.part")
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as out:
            for name, content in contents.items():
                out.writestr(name, content)
        partial.replace(target)
    return target
