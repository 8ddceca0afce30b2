"""The same tasks counted in three ways: by the engine, and by two forms of Spark SQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.batch.day_job import COUNTED_COLUMNS, COUNTED_NAMES
from sluice.batch.scan import scanned
from sluice.engine.batches import together
from sluice.engine.count import count
from sluice.engine.merge import merge
from sluice.engine.plan import EnginePlan
from sluice.engine.schema import partials_schema
from sluice.engine.wire import to_ipc
from sluice.metrics import metric
from sluice.runtime.sections import Limits
from sluice.storage.parquet import table_files
from sluice.storage.stores import Stores
from sluice.tasks import TaskSpec
from sluice.tasks.period import parse_period
from sluice_lab.bench.workload import active

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

#: All ways give a row for each task, period and series; `key` is the dimensions' values joined by "_".
NUMBERS = ("lines", "measured", "sum", "min", "max")
ROWS = ("task", "start", "key", *NUMBERS)


# The engine


@dataclass(frozen=True)
class EnginePass:
    """What a task of the nightly run does with the lines that it reads, without the shuffle."""

    plan: EnginePlan

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        lines = (pa.RecordBatch.from_arrays(batch.columns, COUNTED_NAMES) for batch in batches)
        found = [count(batch, self.plan).partials for batch in together(lines)]
        if not found:
            return
        table = merge(pa.concat_tables(found)) if len(found) > 1 else found[0]
        yield pa.RecordBatch.from_arrays([pa.array([to_ipc(table)], pa.binary())], PAYLOAD.names)


PAYLOAD = pa.schema([("payload", pa.binary())])


def engine(session: SparkSession, log: Path, specs: Sequence[TaskSpec]) -> pa.Table:
    """Read and aggregate shares of the log in executors, as the nightly run does; merge in the driver."""
    work, stores = EnginePass(EnginePlan.of(active(specs), Limits())), Stores()
    files = table_files(stores, str(log))
    found = scanned(session, stores, files, COUNTED_COLUMNS, work=work, schema=PAYLOAD).toArrow()
    tables = [pa.ipc.open_stream(payload.as_buffer()).read_all() for payload in found.column("payload")]
    return merge(pa.concat_tables([partials_schema().empty_table(), *tables]))


def engine_rows(merged: pa.Table) -> pa.Table:
    """Merged PARTIALS as ROWS."""
    columns = chunk_of(merged)

    def values(name: str) -> pa.Array:
        found = metric(name).results(columns).values
        return pa.array(found, mask=np.isnan(found))

    return pa.table(
        {
            "task": pc.subtract(columns["task_id"], 1),
            "start": columns["period_start"],
            "key": columns["key"],
            "lines": columns["lines"],
            "measured": columns["measured"],
            **{name: values(name) for name in ("sum", "min", "max")},
        }
    )


def chunk_of(table: pa.Table) -> dict[str, pa.Array]:
    """The columns of a table as one array each."""
    whole = table.combine_chunks()
    return {
        name: whole.column(name).chunk(0) if whole.num_rows else pa.array([], whole.schema.field(name).type)
        for name in whole.schema.names
    }


# Spark SQL

AGGREGATES = (
    "count(*) AS lines",
    "count(m) AS measured",
    "sum(m) AS sum",
    "min(m) AS min",
    "max(m) AS max",
)


def explode(
    lines: DataFrame, specs: Sequence[TaskSpec], aggregates: Sequence[str] = AGGREGATES, text: bool = False
) -> DataFrame:
    """Split each line once, make a row for each task that it passes, and use one groupBy.

    text: the rows also have the measure as text.
    """
    structs = ", ".join(
        f"IF({_passes(spec)}, named_struct('task', {number}, 'start', {_start(spec)}, 'key', {_key(spec)}, "
        f"'m', {_measure(spec)} {_text(spec) if text else ''}), NULL)"
        for number, spec in enumerate(specs)
    )
    each = _fields(lines, specs).selectExpr(f"explode(array({structs})) AS t").where("t IS NOT NULL")
    return _grouped(each.selectExpr("t.*"), aggregates)


def union(lines: DataFrame, specs: Sequence[TaskSpec], aggregates: Sequence[str] = AGGREGATES) -> DataFrame:
    """Use a groupBy of its own for each task and unite their results."""
    whole: DataFrame | None = None
    for number, spec in enumerate(specs):
        own = _fields(lines, [spec]).where(_passes(spec))
        own = own.selectExpr(
            f"{number} AS task", f"{_start(spec)} AS start", f"{_key(spec)} AS key", f"{_measure(spec)} AS m"
        )
        grouped = _grouped(own, aggregates)
        whole = grouped if whole is None else whole.unionAll(grouped)
    if whole is None:
        raise ValueError("no task to count")
    return whole


def _fields(lines: DataFrame, specs: Sequence[TaskSpec]) -> DataFrame:
    """Each line's fields, cut no further than needed, and its time in ms."""
    taken = [e.index for s in specs for e in (*(d.extract for d in s.dimensions), s.where[0].extract)]
    last = max(i for i in (*taken, *(s.measure.index for s in specs if s.measure), 4) if i is not None)
    split = lines.selectExpr(f"split(cast(line AS string), ' ', {last + 2}) AS f")
    stamp = "concat(substr(f[3], 2), ' ', substr(f[4], 1, 5))"
    return split.selectExpr("f", f"unix_timestamp({stamp}, 'dd/MMM/yyyy:HH:mm:ss Z') * 1000 AS ms")


def _grouped(rows: DataFrame, aggregates: Sequence[str]) -> DataFrame:
    from pyspark.sql import functions as F

    return rows.groupBy("task", "start", "key").agg(*(F.expr(text) for text in aggregates))


def _start(spec: TaskSpec) -> str:
    return f"ms - ms % {parse_period(spec.period) * 1000}"


def _key(spec: TaskSpec) -> str:
    parts = [f"f[{dimension.extract.index}]" for dimension in spec.dimensions]
    return parts[0] if len(parts) == 1 else f"concat_ws('_', {', '.join(parts)})"


def _measure(spec: TaskSpec) -> str:
    return f"try_cast(f[{spec.measure.index}] AS double)" if spec.measure else "NULL"


def _text(spec: TaskSpec) -> str:
    return f", 'x', nullif(f[{spec.measure.index}], '-')" if spec.measure else ", 'x', NULL"


def _passes(spec: TaskSpec) -> str:
    condition = spec.where[0]
    values = ", ".join(f"'{value}'" for value in condition.filter.values or ())
    word = "IN" if condition.filter.mode == "white" else "NOT IN"
    return f"f[{condition.extract.index}] {word} ({values})"


# Do they agree?


class Disagree(AssertionError):
    """Two ways computed different results, so their times mean nothing."""


def check_equal(name: str, wanted: pa.Table, found: pa.Table) -> int:
    """Compare ROWS: counts, minima and maxima exactly, sums to 1e-9; returns their number."""
    keys = [(column, "ascending") for column in ("task", "start", "key")]
    wanted, found = (t.select(list(ROWS)).combine_chunks().sort_by(keys) for t in (wanted, found))
    if wanted.num_rows != found.num_rows:
        raise Disagree(f"{name}: {found.num_rows} results, expected {wanted.num_rows}")
    for column in ROWS:
        a, b = (t.column(column).combine_chunks() for t in (wanted, found))
        if column in ("key",):
            same = pc.all(pc.equal(a, b)).as_py()
        else:
            x, y = (np.asarray(c.cast(pa.float64()).fill_null(np.nan)) for c in (a, b))
            same = np.allclose(x, y, rtol=1e-9 if column == "sum" else 0, atol=0, equal_nan=True)
        if not same:
            raise Disagree(f"{name}: column {column} differs from the other way's")
    return int(wanted.num_rows)
