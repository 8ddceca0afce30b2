"""A small job of Spark with its classes archived and without, compiled soon and later (ADR 0009)."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial

from sluice.stack import class_archive
from sluice.stack.java import SPARK_ARCHIVE, SPARK_COMPILES_LATER
from tests.bench.outcome import FOLDER, Bar, Outcome, Table
from tests.bench.timing import interleaved, median, ratio

NAME = "start"
ROUNDS = 5
WAYS = {
    "as Sluice does": [SPARK_ARCHIVE, *SPARK_COMPILES_LATER],
    "no archive": ["-Xshare:auto", *SPARK_COMPILES_LATER],
    "compiled soon": [SPARK_ARCHIVE],
}
ARCHIVE_LIMIT, LATER_LIMIT = 1.5, 1.0

WHAT = """\
A process starts Spark (`local[2]`), sends lines through a Python worker into a file, reads them again, three
times, and ends: as Sluice's jobs do it; without the class archive that `make setup` makes; and with the JVM's
own thresholds for its second compiler. The JVM's CPU time is read before the end, that of its threads which
compile included."""

PROGRAM = """
import psutil
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
for _ in range(3):
    lines = spark.range(0, 100_000, 1, 4).selectExpr("id", "id % 7 AS key", "cast(id AS string) AS line")
    lines = lines.mapInArrow(lambda batches: batches, lines.schema)
    lines.repartition(3, "key").sortWithinPartitions("id").write.mode("overwrite").parquet("start")
    spark.read.parquet("start").groupBy("key").count().collect()
times = psutil.Process(spark._jvm.ProcessHandle.current().pid()).cpu_times()
print(times.user + times.system)
"""


def run(quick: bool = False) -> Outcome:
    class_archive.make()
    spent: dict[str, list[float]] = {name: [] for name in WAYS}
    ways = {name: partial(start, options, spent[name]) for name, options in WAYS.items()}
    rounds = 1 if quick else ROUNDS
    times = interleaved(ways, rounds, NAME, warm=1)
    return outcome(times, {name: found[-rounds:] for name, found in spent.items()}, quick)


def start(options: Sequence[str], spent: list[float]) -> None:
    """Do the job and note the JVM's CPU seconds. Raises CalledProcessError if it fails."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    env |= {"PYSPARK_SUBMIT_ARGS": f"--driver-java-options '{' '.join(options)}' pyspark-shell"}
    command = [sys.executable, "-c", PROGRAM]
    found = subprocess.run(command, env=env, cwd=FOLDER, capture_output=True, text=True, check=True)
    spent.append(float(found.stdout))


def outcome(
    times: Mapping[str, Sequence[float]], spent: Mapping[str, Sequence[float]], quick: bool
) -> Outcome:
    def over_ours(name: str) -> float:
        return ratio(spent, name, "as Sluice does")

    bars = [
        Bar("CPU time without the archive over that with it", over_ours("no archive"), ARCHIVE_LIMIT),
        Bar(
            "CPU time where the second compiler begins soon over ours",
            over_ours("compiled soon"),
            LATER_LIMIT,
        ),
    ]
    rows = [[name, median(times, name), statistics.median(spent[name])] for name in times]
    table = Table("One small job", ["", "seconds until its process ends", "CPU seconds of the JVM"], rows)
    return Outcome(NAME, WHAT, bars, [table], quick=quick)
