"""A small Spark job with and without archived classes, compiled soon and later (ADR 0009)."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from functools import partial

from sluice.runtime.jvm import SPARK_ARCHIVE, SPARK_COMPILES_LATER
from sluice.spark import class_archive
from sluice_lab.bench.outcome import FOLDER, Bar, Cell, Outcome, Table
from sluice_lab.bench.timing import Times, interleaved, median, ratio

NAME = "start"
ROUNDS = 3
OURS = "as Sluice does"
WAYS = {
    OURS: [SPARK_ARCHIVE, *SPARK_COMPILES_LATER],
    "no archive": ["-Xshare:auto", *SPARK_COMPILES_LATER],
    "compiled soon": [SPARK_ARCHIVE],
}
ARCHIVE_LIMIT, LATER_LIMIT = 1.5, 1.0
#: For each way, a pair per round: the JVM's CPU seconds until the first result and until the end.
Spent = dict[str, list[tuple[float, float]]]

WHAT = """\
A process starts Spark (`local[2]`), sends lines through a Python worker into a file, reads them again, three
times, and ends: as Sluice's jobs do it; without the class archive that `make setup` makes; and with the JVM's
own thresholds for its second compiler. The JVM's CPU time, its compilers' threads included, is read when the
first result is there and before the end."""

PROGRAM = """
import psutil
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
def show():
    times = psutil.Process(spark._jvm.ProcessHandle.current().pid()).cpu_times()
    print(times.user + times.system)
spark.range(0, 1000, 1, 2).mapInArrow(lambda batches: batches, "id bigint").groupBy().count().collect()
show()
for _ in range(3):
    lines = spark.range(0, 100_000, 1, 4).selectExpr("id", "id % 7 AS key", "cast(id AS string) AS line")
    lines = lines.mapInArrow(lambda batches: batches, lines.schema)
    lines.repartition(3, "key").sortWithinPartitions("id").write.mode("overwrite").parquet("start")
    spark.read.parquet("start").groupBy("key").count().collect()
show()
"""


def run(quick: bool = False) -> Outcome:
    class_archive.make()
    spent: Spent = {name: [] for name in WAYS}
    ways = {name: partial(start, options, spent[name]) for name, options in WAYS.items()}
    rounds = 1 if quick else ROUNDS
    times = interleaved(ways, rounds, NAME, warm=1)
    return outcome(times, {name: found[-rounds:] for name, found in spent.items()}, quick)


def start(options: Sequence[str], spent: list[tuple[float, float]]) -> None:
    """Do the job and note both CPU times of the JVM. Raises CalledProcessError if it fails."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    env |= {"PYSPARK_SUBMIT_ARGS": f"--driver-java-options '{' '.join(options)}' pyspark-shell"}
    command = [sys.executable, "-c", PROGRAM]
    found = subprocess.run(command, env=env, cwd=FOLDER, capture_output=True, text=True, check=True)
    first, whole = map(float, found.stdout.split())
    spent.append((first, whole))


def outcome(times: Times, spent: Spent, quick: bool) -> Outcome:
    first = {name: [begin for begin, _ in found] for name, found in spent.items()}
    whole = {name: [end for _, end in found] for name, found in spent.items()}
    bars = [
        Bar(
            "CPU time until the first result, without the archive over ours",
            ratio(first, "no archive", OURS),
            ARCHIVE_LIMIT,
        ),
        Bar(
            "CPU time where the second compiler begins soon over ours",
            ratio(whole, "compiled soon", OURS),
            LATER_LIMIT,
        ),
    ]
    rows: list[list[Cell]] = [
        [name, median(times, name), statistics.median(first[name]), statistics.median(whole[name])]
        for name in times
    ]
    columns = ["", "seconds until its process ends", "CPU seconds until the first result", "and in all"]
    return Outcome(NAME, WHAT, bars, [Table("One small job", columns, rows)], quick=quick)
