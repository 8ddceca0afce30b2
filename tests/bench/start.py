"""The start of Spark with its classes archived and without (ADR 0009)."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial

from sluice.stack import class_archive
from sluice.stack.java import SPARK_CLASSES
from tests.bench.outcome import FOLDER, Bar, Outcome, Table
from tests.bench.timing import interleaved, median, ratio

NAME = "start"
ROUNDS = 5
WAYS = {"archive": f"-XX:SharedArchiveFile={SPARK_CLASSES}", "without": "-Xshare:auto"}
LIMIT = 1.5

WHAT = """\
A process starts Spark (`local[2]`), gets its first result, from lines that went through a Python worker, and
ends: with the class archive that `make setup` makes, and without. The JVM's CPU time is read before the end,
that of its threads which compile included."""

PROGRAM = """
import psutil
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.range(0, 1000, 1, 2).mapInArrow(lambda batches: batches, "id bigint").groupBy().count().collect()
times = psutil.Process(spark._jvm.ProcessHandle.current().pid()).cpu_times()
print(times.user + times.system)
"""


def run(quick: bool = False) -> Outcome:
    class_archive.make()
    spent: dict[str, list[float]] = {name: [] for name in WAYS}
    ways = {name: partial(start, option, spent[name]) for name, option in WAYS.items()}
    rounds = 1 if quick else ROUNDS
    times = interleaved(ways, rounds, NAME, warm=1)
    return outcome(times, {name: found[-rounds:] for name, found in spent.items()}, quick)


def start(option: str, spent: list[float]) -> None:
    """Start Spark and note the JVM's CPU seconds. Raises CalledProcessError if it fails."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    env |= {"PYSPARK_SUBMIT_ARGS": f"--driver-java-options '{option}' pyspark-shell"}
    command = [sys.executable, "-c", PROGRAM]
    found = subprocess.run(command, env=env, cwd=FOLDER, capture_output=True, text=True, check=True)
    spent.append(float(found.stdout))


def outcome(
    times: Mapping[str, Sequence[float]], spent: Mapping[str, Sequence[float]], quick: bool
) -> Outcome:
    bar = Bar(
        "CPU time of a start without the archive over that with it", ratio(spent, "without", "archive"), LIMIT
    )
    rows = [[name, median(times, name), statistics.median(spent[name])] for name in times]
    table = Table("One start", ["", "seconds until its process ends", "CPU seconds of the JVM"], rows)
    return Outcome(NAME, WHAT, [bar], [table], quick=quick)
