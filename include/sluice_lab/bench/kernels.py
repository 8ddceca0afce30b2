"""The pass inside `mapInArrow` by the engine, pyarrow, Polars and DuckDB."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.batches import together
from sluice.engine.count import count
from sluice.engine.parse import event_time
from sluice.engine.plan import EnginePlan
from sluice.runtime.sections import Limits
from sluice.spark.workers import with_metrics
from sluice.tasks import TaskSpec, TopicSpec
from sluice.tasks.period import parse_period
from sluice_lab.bench import contenders, spark, workload
from sluice_lab.bench.outcome import Bar, Cell, Curve, Outcome, Table
from sluice_lab.bench.timing import Times, interleaved, median, ratio

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME = "kernels"
LINES, QUICK_LINES = 1_000_000, 200_000
SECONDS = 600
NUMBERS = (1, 4, 16, 64)
ROUNDS = 5
ENGINE = "sluice"
# The choice of the engine holds as long as no other way is clearly faster with many tasks.
MANY, LIMIT = 64, 1.0

WHAT = """\
The same pass over {lines:,} lines inside `mapInArrow`, Spark `local[2]`, one thread a worker, N
tasks that all differ: the lines cut into fields, filtered, grouped by period and series, counted,
summed, minima and maxima, partial aggregates thrown away. `sluice` is the engine (pyarrow cuts,
dictionaries and numpy do the rest), `pyarrow` its kernels and `group_by`, `polars` a lazy query a
task collected together, `duckdb` an SQL query a task over the registered Arrow table. All four get
the engine's time stamps. Their partial aggregates were shown to be the same."""

#: Counts one batch for these tasks; gives a table of ROWS.
Way = Callable[[pa.RecordBatch, Sequence[TaskSpec]], pa.Table]


def run(quick: bool = False) -> Outcome:
    lines = QUICK_LINES if quick else LINES
    log = workload.log(lines, SECONDS)
    measured = {}
    with spark.session("bench kernels") as session:
        frame = spark.read(session, log)
        for number in NUMBERS:
            specs = workload.tasks(number)
            check(frame, specs)
            ways = {name: partial(_consume, frame, way, specs) for name, way in WAYS.items()}
            measured[number] = interleaved(ways, 1 if quick else ROUNDS, f"{NAME} N={number}")
    return outcome(measured, lines, quick)


def outcome(measured: Mapping[int, Times], lines: int, quick: bool) -> Outcome:
    others = [name for name in WAYS if name != ENGINE]
    best = {n: min(others, key=lambda name, t=t: median(t, name)) for n, t in measured.items()}  # type: ignore[misc]
    bar = Bar(
        f"{MANY} tasks: times as fast as the best other way", ratio(measured[MANY], best[MANY], ENGINE), LIMIT
    )
    rates = {n: {name: lines / median(t, name) / 1000 for name in WAYS} for n, t in measured.items()}
    rows: list[list[Cell]] = [[str(n), *rate.values()] for n, rate in rates.items()]
    curve = Curve(
        "The pass, four ways",
        "tasks",
        "thousand lines a second",
        {name: [[float(n) for n in rates], [rate[name] for rate in rates.values()]] for name in WAYS},
    )
    table = Table("Thousand lines a second", ["tasks", *WAYS], rows)
    return Outcome(NAME, WHAT.format(lines=lines), [bar], [table], [curve], quick)


def sluice(batch: pa.RecordBatch, specs: Sequence[TaskSpec]) -> pa.Table:
    plan = EnginePlan.of(workload.active(specs), Limits())
    return contenders.engine_rows(count(batch, plan).partials)


def arrow(batch: pa.RecordBatch, specs: Sequence[TaskSpec]) -> pa.Table:
    """For each task, join the key as a string and group by it."""
    columns, ms, numbers = _fields(batch, specs)
    tables = []
    for number, spec in enumerate(specs):
        keys = [columns[i] for i in _indexes(spec)]
        table = pa.table(
            {
                "start": ms - ms % _period(spec),
                "key": pc.binary_join_element_wise(*keys, "_") if len(keys) > 1 else keys[0],
                "m": numbers[_measure(spec)],
            }
        )
        at, values, white = _condition(spec)
        passed = pc.is_in(columns[at], pa.array(values))
        grouped = table.filter(passed if white else pc.invert(passed)).group_by(
            ["start", "key"], use_threads=False
        )
        found = grouped.aggregate(
            [([], "count_all"), ("m", "count"), ("m", "sum"), ("m", "min"), ("m", "max")]
        ).rename_columns(
            {"count_all": "lines", "m_count": "measured", "m_sum": "sum", "m_min": "min", "m_max": "max"}
        )
        tables.append(found.append_column("task", pa.array(np.full(found.num_rows, number))))
    return pa.concat_tables(table.select(list(contenders.ROWS)) for table in tables)


def polars(batch: pa.RecordBatch, specs: Sequence[TaskSpec]) -> pa.Table:
    """Make one lazy query per task, and collect all of them together."""
    os.environ["POLARS_MAX_THREADS"] = "1"
    import polars as pl

    columns, ms, numbers = _fields(batch, specs)
    series: dict[str, Any] = {f"f{i}": pl.Series(c) for i, c in columns.items()}
    series |= {f"m{i}": pl.Series(c) for i, c in numbers.items()}
    frame = pl.DataFrame(series | {"ms": ms}).lazy()
    queries = []
    for number, spec in enumerate(specs):
        at, values, white = _condition(spec)
        passed = pl.col(f"f{at}").is_in(values)
        m = pl.col(f"m{_measure(spec)}")
        found = frame.filter(passed if white else ~passed).group_by(
            (pl.col("ms") - pl.col("ms") % _period(spec)).alias("start"), *(f"f{i}" for i in _indexes(spec))
        ).agg(
            pl.len().cast(pl.Int64).alias("lines"),
            m.count().cast(pl.Int64).alias("measured"),
            pl.when(m.count() > 0).then(m.sum()).alias("sum"),
            m.min().alias("min"),
            m.max().alias("max"),
        )  # fmt: skip
        key = pl.concat_str([f"f{i}" for i in _indexes(spec)], separator="_")
        queries.append(
            found.select(pl.lit(number).alias("task"), "start", key.alias("key"), *contenders.NUMBERS)
        )
    whole: pa.Table = pl.concat(pl.collect_all(queries)).to_arrow()
    return whole.set_column(2, "key", whole.column("key").cast(pa.string()))


def duckdb(batch: pa.RecordBatch, specs: Sequence[TaskSpec]) -> pa.Table:
    """Make one SQL query per task over the fields, registered as an Arrow table."""
    import duckdb as engine

    columns, ms, numbers = _fields(batch, specs)
    named = {f"f{i}": c for i, c in columns.items()} | {f"m{i}": c for i, c in numbers.items()}
    with engine.connect(config={"threads": "1"}) as database:
        database.register("given", pa.table(named | {"ms": pa.array(ms)}))
        database.execute("CREATE TEMP TABLE lines AS FROM given")
        tables = [database.sql(_sql(n, spec)).to_arrow_table() for n, spec in enumerate(specs)]
    return pa.concat_tables(tables)


def _sql(number: int, spec: TaskSpec) -> str:
    at, values, white = _condition(spec)
    listed = ", ".join(f"'{value}'" for value in values)
    m = f"m{_measure(spec)}"
    keys = ", ".join(f"f{i}" for i in _indexes(spec))
    key = " || '_' || ".join(f"f{i}" for i in _indexes(spec))
    return (
        f"SELECT CAST({number} AS BIGINT) AS task, ms - ms % {_period(spec)} AS start, {key} AS key, "
        f"count(*) AS lines, count({m}) AS measured, sum({m}) AS sum, min({m}) AS min, max({m}) AS max "
        f"FROM lines WHERE f{at} {'IN' if white else 'NOT IN'} ({listed}) GROUP BY start, {keys}"
    )


WAYS: dict[str, Way] = {ENGINE: sluice, "pyarrow": arrow, "polars": polars, "duckdb": duckdb}


def check(frame: DataFrame, specs: Sequence[TaskSpec]) -> None:
    """Check that all ways give the same partial aggregates for one batch."""
    batch = pa.concat_batches(frame.limit(5_000).toArrow().to_batches())
    wanted = sluice(batch, specs)
    for name, way in WAYS.items():
        contenders.check_equal(name, wanted, way(batch, specs))


def _consume(frame: DataFrame, way: Way, specs: Sequence[TaskSpec]) -> None:
    def function(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        for batch in together(batches):
            yield pa.RecordBatch.from_arrays([pa.array([way(batch, specs).num_rows])], ["rows"])

    spark.consume(frame.mapInArrow(with_metrics(function), "rows bigint"))


def _fields(
    batch: pa.RecordBatch, specs: Sequence[TaskSpec]
) -> tuple[dict[int, pa.Array], np.ndarray[Any, np.dtype[np.int64]], dict[int, pa.Array]]:
    """Each field that a task needs, the lines' times, and the measures as numbers or null."""
    import polars as pl

    lines = batch.column("line")
    ms, _ = event_time(lines, TopicSpec())
    taken = {i for s in specs for i in (*_indexes(s), _condition(s)[0], _measure(s))}
    split = pc.split_pattern(lines.cast(pa.string()), " ", max_splits=max(taken) + 1)
    columns = {i: pc.list_element(split, i) for i in taken}
    numbers = {
        i: pl.Series(columns[i]).cast(pl.Float64, strict=False).to_arrow()
        for i in {_measure(s) for s in specs}
    }
    return columns, ms, numbers


def _indexes(spec: TaskSpec) -> list[int]:
    return [d.extract.index or 0 for d in spec.dimensions]


def _measure(spec: TaskSpec) -> int:
    return (spec.measure.index or 0) if spec.measure else 0


def _condition(spec: TaskSpec) -> tuple[int, list[str], bool]:
    condition = spec.where[0]
    return condition.extract.index or 0, list(condition.filter.values or ()), condition.filter.mode == "white"


def _period(spec: TaskSpec) -> int:
    return parse_period(spec.period) * 1000
