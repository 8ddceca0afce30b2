"""Spark's classes, parsed and verified, in one file that all its JVMs map into memory.

Spark loads 22,000 classes before its first task. Loading them from jars takes more than half of its start-up.
``python -m sluice.spark.class_archive`` makes the file once (JEP 350, dynamic archives of class data
sharing), in a session that does a bit of everything that jobs do. A JVM ignores the file if it is another
JVM, or if its class path does not begin as it did then. Spark therefore finds its configuration at the end of
the class path (HADOOP_CONF_DIR).
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.runtime import inherited
from sluice.runtime.jvm import LIB, QUICK, SPARK_CLASSES, java
from sluice.stack.environment import spark_home

if TYPE_CHECKING:
    import pyarrow as pa

STAMP = SPARK_CLASSES.with_suffix(".stamp")
#: The classes that the SQL endpoint loads in addition to a session's.
ENDPOINT = (
    "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2",
    "org.apache.spark.sql.hive.thriftserver.SparkSQLCLIService",
    "org.apache.spark.sql.hive.thriftserver.SparkExecuteStatementOperation",
    "org.apache.hadoop.hive.ql.metadata.Hive",
    "org.apache.hadoop.hive.metastore.HiveMetaStoreClient",
)


def stamp() -> str:
    """Hash of the JVM and the jars, which an archive must fit, and of this file."""
    version = subprocess.run([java(), "-Xinternalversion"], capture_output=True, text=True, check=True).stdout
    digest = hashlib.sha256(version.encode() + Path(__file__).read_bytes())
    for jar in sorted((spark_home() / "jars").iterdir()):
        found = jar.stat()
        digest.update(f"{jar} {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def make() -> bool:
    """Make the archive if it is missing or out of date; returns whether it was made."""
    wanted = stamp()
    if SPARK_CLASSES.exists() and STAMP.exists() and STAMP.read_text() == wanted:
        return False
    LIB.mkdir(parents=True, exist_ok=True)
    STAMP.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=LIB) as scratch:
        made = Path(scratch) / SPARK_CLASSES.name
        env = {
            **inherited.variables(),
            "SPARK_CONF_DIR": str(spark_home() / "conf"),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        command = [sys.executable, "-m", __spec__.name, "load", scratch, str(made)]
        found = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        if found.returncode or not made.exists():
            raise RuntimeError(f"Spark's class archive could not be made:\n{found.stderr[-4000:]}")
        made.replace(SPARK_CLASSES)
    STAMP.write_text(wanted)
    return True


def load(scratch: Path, made: Path) -> None:
    """Do a bit of everything that jobs do; at its end the JVM archives the classes it loaded."""
    from pyspark.sql import SparkSession, Window
    from pyspark.sql import functions as F

    config = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.authenticate": "true",
        "spark.local.dir": str(scratch / "tmp"),
        "spark.driver.extraJavaOptions": f"{QUICK} -XX:ArchiveClassesAtExit={made} -Xlog:cds=off",
    }
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.config(map=config).getOrCreate()
    lines, log = f"file://{scratch}/lines", f"file://{scratch}/log"
    rows = spark.range(0, 1000, 1, 2).selectExpr(
        "id AS offset", "cast(id % 7 AS int) AS host", "cast(cast(id AS string) AS binary) AS line"
    )
    rows.mapInArrow(_same, rows.schema).write.parquet(lines)
    own = Window.partitionBy("host").orderBy("offset")
    ranked = spark.read.schema(rows.schema).parquet(lines).withColumn("rank", F.row_number().over(own))
    ranked.where("rank < 100").repartition("host").mapInArrow(_same, ranked.schema).write.parquet(log)
    spark.read.parquet(log).groupBy("host").agg(F.count("line"), F.max("offset")).toArrow()
    rows.mapInArrow(_same, rows.schema).repartitionById(2, "host").mapInArrow(_same, rows.schema).toArrow()
    pairs = spark.sparkContext.parallelize([(0, b"line"), (1, b"line")], 2).mapPartitions(iter)
    pairs.partitionBy(2, int).mapPartitions(iter).collect()
    jvm = spark._jvm
    for name in ENDPOINT:
        jvm.org.apache.spark.util.Utils.classForName(name, True, True)
    # Nothing listens at this address: a file system connects only when it is asked for a file.
    jvm.org.apache.hadoop.fs.Path("hdfs://127.0.0.1:1/").getFileSystem(spark._jsc.hadoopConfiguration())
    spark.stop()


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


if __name__ == "__main__":
    if sys.argv[1:2] == ["load"]:
        load(*map(Path, sys.argv[2:]))
    else:
        began = time.perf_counter()
        if make():
            sys.stdout.write(f"setup: Spark's classes are archived ({time.perf_counter() - began:.0f} s)\n")
