"""A day of the archive: the nightly run's results job against equivalent plain Spark SQL."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.batch import day_job
from sluice.engine.plan import EnginePlan
from sluice.runtime.sections import Limits
from sluice.storage.stores import Stores
from sluice_lab.bench import contenders, spark, workload
from sluice_lab.bench.outcome import FOLDER, Bar, Cell, Outcome, Table
from sluice_lab.bench.timing import better, interleaved, median, ratio

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "offline"
LINES, QUICK_LINES, CHECKED_LINES = 10_000_000, 300_000, 200_000
SECONDS = 86_400
TASKS, LIMIT, ROUNDS = 16, 3.0, 2
RIVALS = ("explode", "union")
RESULTS = (
    "count(*) AS lines",
    "count(m) AS measured",
    "sum(m) AS sum",
    "avg(m) AS avg",
    "min(m) AS min",
    "max(m) AS max",
    "count(*) - count(m) AS missing",
)

WHAT = """\
One day of {lines:,} unique lines as they stand in `logs` (Parquet), {tasks} tasks that all differ,
with count, sum, average, minimum, maximum and the number of missing measures, written to Parquet;
Spark `local[2]`. `sluice` is the nightly run's own job (results and accumulators), `explode` and
`union` are Spark SQL (results only). On {checked:,} lines all three were shown to give the same
results. The faster of the last two takes part in all rounds, the other one in the first."""


def run(quick: bool = False) -> Outcome:
    lines = QUICK_LINES if quick else LINES
    with spark.session("bench offline", config=spark.WORKERS) as session:
        _check(session)
        log = workload.log(lines, SECONDS)
        times = interleaved(
            {name: OfflineJob(session, log, name) for name in ("sluice", "explode", "union")},
            rounds=1 if quick else ROUNDS,
            label=NAME,
            rivals=RIVALS,
        )
    bar = Bar(f"{TASKS} tasks, a day: times as fast as the better of explode and union",
              ratio(times, better(times, RIVALS), "sluice"), LIMIT)  # fmt: skip
    rates: list[list[Cell]] = [
        [name, lines / median(times, name) / 1000, median(times, name)] for name in times
    ]
    table = Table("Lines of a day", ["way", "k lines/s", "seconds"], rates)
    what = WHAT.format(lines=lines, tasks=TASKS, checked=CHECKED_LINES)
    return Outcome(NAME, what, [bar], [table], quick=quick)


class OfflineJob:
    """One way from `logs` to written results."""

    def __init__(self, session: SparkSession, log: Path, way: str) -> None:
        self._session, self._log, self._way = session, log, way
        self.location = FOLDER / "spark" / f"results-{way}"

    def __call__(self) -> None:
        shutil.rmtree(self.location, ignore_errors=True)
        specs = workload.tasks(TASKS)
        if self._way == "sluice":
            tasks = workload.active(specs)
            plan = EnginePlan.of(tasks, Limits())
            logs, results = str(self._log), str(self.location)
            day_job.write_results(self._session, plan, tasks, logs, results, stores=Stores(), parts=4)
            return
        lines = self._session.read.schema("line string").parquet(str(self._log))
        way = contenders.explode if self._way == "explode" else contenders.union
        way(lines, specs, RESULTS).write.parquet(str(self.location))

    def rows(self) -> DataFrame:
        """The results that it wrote, as the columns of `contenders.ROWS`."""
        written = self._session.read.parquet(str(self.location))
        if self._way != "sluice":
            return written.select(*contenders.ROWS)
        named = [f"results['{name}'] AS {name}" for name in ("sum", "min", "max")]
        return written.selectExpr(
            "task_id - 1 AS task",
            "unix_millis(period_start) AS start",
            "series AS key",
            "results['count'] AS lines",
            "results['count'] - results['missing'] AS measured",
            *named,
        )


def _check(session: SparkSession) -> None:
    log = workload.log(CHECKED_LINES, SECONDS)
    jobs = [OfflineJob(session, log, name) for name in ("sluice", "explode", "union")]
    for job in jobs:
        job()
    wanted, *others = (job.rows().toArrow() for job in jobs)
    for name, found in zip(("explode", "union"), others, strict=True):
        contenders.check_equal(name, wanted, found)
