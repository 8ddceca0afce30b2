"""Sketches in 64 tasks: distinct values and a quantile, against Spark's own sketches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.metrics import metric
from sluice.tasks import TaskSpec
from sluice.tasks.period import parse_period
from sluice_lab.bench import contenders, spark, workload
from sluice_lab.bench.outcome import Bar, Cell, Outcome, Table
from sluice_lab.bench.timing import interleaved, median, ratio

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAME = "sketches"
LINES, QUICK_LINES = 1_000_000, 100_000
SECONDS = 600
TASKS, LIMIT, ROUNDS = 64, 5.0, 2
METRICS = ("count", "unique", "p99")
CHECKED_TASKS = 8
#: Registers are as many as ours; for quantiles, Spark's default is k = 200 while ours is 400.
AGGREGATES = (
    "count(*) AS lines",
    "hll_sketch_estimate(hll_sketch_agg(x, 12)) AS unique",
    # A quantile of nothing is an error in Spark.
    "IF(count(m) > 0, kll_sketch_get_quantile_double(kll_sketch_agg_double(m, 200), 0.99), NULL) AS p99",
)
# For thousands of series: five standard errors of 2^12 registers, and twice the 99 % rank error of k = 200.
UNIQUE_ERROR, RANK_ERROR = 5 * 1.04 / 64, 2 * 0.0133

WHAT = """\
{tasks} tasks that all differ, each with the number of lines, of distinct values and the 99th
percentile of its measure, over {lines:,} lines, Spark `local[2]`. `sluice` is the engine (exact up
to a bound a series, then HyperLogLog with 2^12 registers; KLL with k = 400), `spark` the explode
form with Spark's `hll_sketch_agg` (2^12) and `kll_sketch_agg_double` (k = 200, its default: half as
many values kept, which is to its advantage), one groupBy. Before that both were held against
DuckDB's exact answers for {checked:,} series: line counts exactly, distinct values within five
standard errors, the percentile's rank within twice the rank error that k = 200 states."""


def run(quick: bool = False) -> Outcome:
    lines = QUICK_LINES if quick else LINES
    log = workload.log(lines, SECONDS)
    with spark.session("bench sketches") as session:
        frame = spark.read(session, log)
        specs = workload.tasks(TASKS, METRICS)
        few = specs[:CHECKED_TASKS]
        checked = check("sluice", engine_rows(session, log, few), log, few)
        check("spark", contenders.explode(frame, few, AGGREGATES, text=True).toArrow(), log, few)
        times = interleaved(
            {
                "sluice": lambda: engine_rows(session, log, specs),
                "spark": lambda: spark.consume(contenders.explode(frame, specs, AGGREGATES, text=True)),
            },
            rounds=1 if quick else ROUNDS,
            label=NAME,
        )
    what = WHAT.format(tasks=TASKS, lines=lines, checked=checked)
    bar = Bar(f"{TASKS} tasks with unique and p99: times as fast", ratio(times, "spark", "sluice"), LIMIT)
    rates: list[list[Cell]] = [[name, lines / median(times, name) / 1000] for name in times]
    table = Table("Thousand lines a second", ["way", "k lines/s"], rates)
    return Outcome(NAME, what, [bar], [table], quick=quick)


def engine_rows(session: SparkSession, log: Path, specs: list[TaskSpec]) -> pa.Table:
    """The engine's results: task, start, key, lines, unique, p99."""
    merged = contenders.engine(session, log, specs)
    columns = contenders.chunk_of(merged)
    return pa.table(
        {
            "task": pc.subtract(columns["task_id"], 1),
            "start": columns["period_start"],
            "key": columns["key"],
            "lines": columns["lines"],
            **{name: pa.array(metric(name).results(columns).values) for name in METRICS[1:]},
        }
    )


def check(name: str, found: pa.Table, log: Path, specs: list[TaskSpec]) -> int:
    """Check the results against DuckDB's exact answers; returns their number.

    Raises Disagree if they do not lie within their errors.
    """
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.register("found", found)
        exact: Any = database.sql(
            f"""
            WITH cut AS MATERIALIZED (
                SELECT string_split(line, ' ') AS f,
                    epoch_ms(strptime(substr(f[4], 2) || ' +0000', '%d/%b/%Y:%H:%M:%S %z')) AS ms
                FROM read_parquet('{log}/*.parquet')
            ), every AS ({" UNION ALL ".join(_select(n, spec) for n, spec in enumerate(specs))})
            SELECT any_value(found.lines) AS lines, count(*) AS exact_lines,
                any_value(found."unique") AS uniques, count(DISTINCT x) AS exact_uniques,
                count(*) FILTER (m < found.p99) / count(m) AS below,
                count(*) FILTER (m <= found.p99) / count(m) AS up_to
            FROM every FULL JOIN found USING (task, start, key) GROUP BY task, start, key
            """
        ).to_arrow_table()
    columns = {c: exact.column(c).to_numpy().astype(np.float64) for c in exact.column_names}
    if exact.num_rows != found.num_rows or not np.array_equal(columns["lines"], columns["exact_lines"]):
        raise contenders.Disagree(f"{name}: the series or their line counts are not DuckDB's")
    distinct = columns["exact_uniques"]
    if np.any(np.abs(columns["uniques"] - distinct) > np.maximum(distinct * UNIQUE_ERROR, 0.5)):
        raise contenders.Disagree(f"{name}: numbers of distinct values beyond five standard errors")
    measured = distinct > 0
    late, early = columns["below"][measured] - 0.99, 0.99 - columns["up_to"][measured]
    if np.any(np.maximum(late, early) > RANK_ERROR):
        raise contenders.Disagree(f"{name}: percentiles beyond twice the stated rank error")
    return int(found.num_rows)


def _select(number: int, spec: TaskSpec) -> str:
    condition = spec.where[0]
    values = ", ".join(f"'{value}'" for value in condition.filter.values or ())
    word = "IN" if condition.filter.mode == "white" else "NOT IN"
    key = " || '_' || ".join(f"f[{(d.extract.index or 0) + 1}]" for d in spec.dimensions)
    at = (spec.measure.index or 0) + 1 if spec.measure else 1
    period = parse_period(spec.period) * 1000
    return (
        f"SELECT {number} AS task, ms - ms % {period} AS start, {key} AS key, nullif(f[{at}], '-') AS x, "
        f"try_cast(x AS DOUBLE) AS m FROM cut WHERE f[{(condition.extract.index or 0) + 1}] {word} ({values})"
    )
