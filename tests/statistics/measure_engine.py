"""How fast the pass over lines is, against two other ways: python -m tests.statistics.measure_engine

N tasks, all different (dimensions, filters, periods), over one batch of lines on one core; every way gets the
fields split once for all tasks. Prints thousand lines a CPU second, the best of `ROUNDS` interleaved rounds.
"""

from __future__ import annotations

import os

os.environ["POLARS_MAX_THREADS"] = "1"

import itertools
import random
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from sluice.statistics.parse import event_time
from sluice.statistics.partials import count
from sluice.tasks import TaskSpec, TopicSpec
from tests.statistics.engine_samples import BYTES, line, plan, records, spec

LINES, ROUNDS = 200_000, 5
FIELDS = {"client": 0, "path": 6, "status": 8, "method": 5, "protocol": 7}
PERIODS = ("1m", "5m", "1h")


def log(size: int) -> list[bytes]:
    """Ten minutes of a busy site: 2,000 clients, 1,500 paths, Zipf-like."""
    rng = random.Random(1)  # noqa: S311
    start = datetime(2015, 5, 17, tzinfo=UTC)
    return [
        line(
            client=f"10.0.{int(8 * rng.random() ** 3)}.{int(250 * rng.random() ** 2)}",
            at=start + timedelta(seconds=600 * n / size),
            path=f"/articles/{int(1500 * rng.random() ** 3)}/index.html",
            status=rng.choice(["200"] * 8 + ["304", "404"]),
            size=str(rng.randrange(50_000)) if rng.random() > 0.05 else "-",
        )
        for n in range(size)
    ]


def tasks(number: int) -> list[TaskSpec]:
    """`number` tasks of one or two dimensions, every second one with a filter."""
    names = list(FIELDS)
    sets = [*itertools.combinations(names, 1), *itertools.combinations(names, 2)]
    made = []
    for n, (period, filtered, dims) in zip(
        range(number), itertools.cycle(itertools.product(PERIODS, (False, True), sets)), strict=False
    ):
        black = {"mode": "black", "values": ["304", "x" * (n // 90 + 1)]}
        where = [{"extract": {"delimiter": " ", "index": 8}, "filter": black}] if filtered else []
        dimensions = [{"name": d, "extract": {"delimiter": " ", "index": FIELDS[d]}} for d in dims]
        made.append(
            spec(
                name=f"t{n}",
                period=period,
                where=where,
                dimensions=dimensions,
                measure=BYTES,
                metrics=["count", "sum", "min", "max"],
            )
        )
    return made


def sluice(batch: pa.RecordBatch, specs: list[TaskSpec]) -> int:
    return int(count(batch, plan(*specs)).partials.num_rows)


def _fields(batch: pa.RecordBatch) -> tuple[dict[int, Any], Any, Any]:
    lines = batch.column("line")
    ms, _ = event_time(lines, TopicSpec())
    split = pc.split_pattern(lines.cast(pa.string()), " ", max_splits=10)
    columns = {n: pc.list_element(split, n) for n in (*FIELDS.values(), 9)}
    return columns, ms, pl.Series(columns[9]).cast(pl.Float64, strict=False).to_arrow()


def arrow(batch: pa.RecordBatch, specs: list[TaskSpec]) -> int:
    """pyarrow: each task joins its key as a string and groups by it."""
    columns, ms, measure = _fields(batch)
    rows = 0
    for task in specs:
        key = [columns[d.extract.index] for d in task.dimensions]
        table = pa.table(
            {
                "period": ms // task.period_ms,
                "key": pc.binary_join_element_wise(*key, "_") if len(key) > 1 else key[0],
                "m": measure,
            }
        )
        if task.where:
            values = pa.array(task.where[0].filter.values)
            table = table.filter(pc.invert(pc.is_in(columns[8], values)))
        grouped = table.group_by(["period", "key"], use_threads=False)
        rows += grouped.aggregate(
            [([], "count_all"), ("m", "count"), ("m", "sum"), ("m", "min"), ("m", "max")]
        ).num_rows
    return rows


def polars(batch: pa.RecordBatch, specs: list[TaskSpec]) -> int:
    """Polars: one lazy query a task, collected together."""
    columns, ms, measure = _fields(batch)
    frame = pl.DataFrame(
        {f"f{n}": pl.Series(c) for n, c in columns.items()} | {"ms": ms, "m": pl.Series(measure)}
    )
    queries = []
    for task in specs:
        query = frame.lazy()
        if task.where:
            query = query.filter(~pl.col("f8").is_in(list(task.where[0].filter.values or ())))
        keys = [pl.col(f"f{d.extract.index}") for d in task.dimensions]
        query = query.group_by((pl.col("ms") // task.period_ms).alias("period"), *keys).agg(
            pl.len(),
            pl.col("m").count().alias("measured"),
            pl.col("m").sum().alias("sum"),
            pl.col("m").min().alias("min"),
            pl.col("m").max().alias("max"),
        )
        queries.append(query.select("period", pl.concat_str(keys, separator="_"), "len", "measured", "sum"))
    return sum(len(found) for found in pl.collect_all(queries))


def main() -> None:
    pa.set_cpu_count(1)
    batch = records(log(LINES))
    ways: dict[str, Callable[[pa.RecordBatch, list[TaskSpec]], int]] = {
        "sluice": sluice,
        "pyarrow": arrow,
        "polars": polars,
    }
    sys.stdout.write(f"{'tasks':>6}" + "".join(f"{name:>10}" for name in ways) + "   thousand lines/s\n")
    for number in (1, 4, 16, 64):
        specs = tasks(number)
        best = dict.fromkeys(ways, np.inf)
        rows = set()
        for _ in range(ROUNDS):
            for name, way in ways.items():
                start = time.process_time()
                rows.add(way(batch, specs))
                best[name] = min(best[name], time.process_time() - start)
        if len(rows) > 1:
            raise AssertionError(f"the ways differ in their number of groups: {rows}")
        rates = "".join(f"{LINES / seconds / 1000:10.0f}" for seconds in best.values())
        sys.stdout.write(f"{number:>6}{rates}   {rows.pop()} groups\n")


if __name__ == "__main__":
    main()
