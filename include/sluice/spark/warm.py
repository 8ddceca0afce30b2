"""Compile the kernels of engine, metrics and grouping before a batch needs them.

Run it by ``python -m sluice.spark.warm``. numba keeps the compiled code on disk. Without this the first large
batch on a machine takes some seconds longer.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pyarrow as pa

from sluice.engine.count import count
from sluice.engine.cut import COMPILED_LINES
from sluice.engine.merge import merge
from sluice.engine.plan import EnginePlan
from sluice.engine.results import results
from sluice.metrics import load_team
from sluice.runtime.sections import Limits
from sluice.tasks.spec import ActiveTask, TaskSpec

_STATUS = {"field": "status"}
_TASK = {
    "name": "warm",
    "topic": "logs",
    "period": "60s",
    "where": [{"extract": _STATUS, "filter": {"mode": "black", "values": ["404"]}}],
    "dimensions": [
        {"name": "status", "extract": _STATUS},
        {"name": "word", "extract": {"delimiter": " ", "index": 8}},
    ],
    "measure": {"field": "bytes"},
    "metrics": ["count", "sum", "avg", "min", "max", "stddev", "unique", "p50", "p99", "top10"],
}


def warm() -> None:
    """Count made-up lines in two batches, merge them and compute results."""
    task = ActiveTask(1, 1, TaskSpec.model_validate(_TASK))
    plan = EnginePlan.of([task], Limits())
    lines = [
        f'h - - [17/May/2015:10:05:{n % 60:02d} +0000] "GET / HTTP/1.1" {200 + n % 3} {n / 2:g}'.encode()
        for n in range(COMPILED_LINES)
    ]
    batch = pa.record_batch(
        {
            "partition": pa.array(np.zeros(len(lines), np.int32)),
            "offset": pa.array(np.arange(len(lines))),
            "line": pa.array(lines, pa.binary()),
        }
    )
    parts = [count(batch, plan).partials for _ in range(2)]
    results(merge(pa.concat_tables(parts)), {(task.task_id, task.version): task})


def warm_strategy(name: str) -> None:
    """Route two made-up batches by a strategy, with the default parameters."""
    from sluice.grouping import strategy  # a worker need not load it while no task is routed
    from sluice.grouping.base import Counts, WorkerCluster

    made = strategy(name)
    if made.combines:
        return
    cluster, keys = WorkerCluster.alike(2), np.arange(1_000, dtype=np.uint64)
    router = made.router(cluster)
    for _ in range(2):
        router.route(keys)
        made.boundary([router], cluster, Counts.of(keys))


def compile_all() -> None:
    """Compile the engine and every strategy, on all cores.

    If nothing is compiled yet, it takes a minute of one core.
    """
    from sluice.grouping import STRATEGIES

    with ProcessPoolExecutor() as pool:
        compiling = [pool.submit(warm), *(pool.submit(warm_strategy, name) for name in STRATEGIES)]
        for each in compiling:
            each.result()


if __name__ == "__main__":
    began = time.perf_counter()
    load_team()
    compile_all()
    sys.stdout.write(f"setup: kernels are compiled ({time.perf_counter() - began:.0f} s)\n")
