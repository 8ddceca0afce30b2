"""A batch as a Spark job: sources, `repartitionById`, which sends each row to just its worker, workers."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sluice.grouping.base import Cluster, Strategy
from tests.bench import spark
from tests.bench.grouping_stages import FOUND, SENT, Job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Longer than one Python process takes from its start to the end of its imports.
_TOGETHER = 2.0


@contextmanager
def cluster(slots: int, rules: Sequence[Strategy]) -> Iterator[SparkSession]:
    """Spark with so many slots, and a Python process at each that has all that these strategies need."""
    _try(rules)  # compiled here, once: the processes only load it
    with spark.session(f"bench grouping on {slots}", slots) as session:
        # As in the speed layer: streaming does not support it, and it would plan the second stage anew.
        session.conf.set("spark.sql.adaptive.enabled", "false")
        session.range(0, slots, 1, slots).mapInArrow(_ready(rules), "id bigint").toArrow()
        yield session


def run(session: SparkSession, job: Job) -> pa.Table:
    """The job's rows of FOUND: of one stage if the strategy combines, else of two."""
    sources = session.range(0, len(job.slices), 1, len(job.slices))
    if job.strategy.combines:
        return sources.mapInArrow(_combining(job), FOUND).toArrow()
    sent = sources.mapInArrow(_routing(job), SENT)
    workers = job.cluster.workers
    return sent.repartitionById(workers, "worker").mapInArrow(_aggregating(job), FOUND).toArrow()


def _try(rules: Sequence[Strategy]) -> None:
    for rule in rules:
        rule.router(Cluster.alike(2)).route(np.arange(2, dtype=np.uint64))


# Spark ships these inner functions by their code. What they call is imported at the slots.


def _ready(rules: Sequence[Strategy]) -> Any:
    def function(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _try(rules)
        time.sleep(_TOGETHER)  # or a process that is ready would take the next one's place
        yield from batches

    return function


def _combining(job: Job) -> Any:
    def function(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for source in batch.column("id").to_pylist():
                yield from job.combine(source)

    return function


def _routing(job: Job) -> Any:
    def function(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for source in batch.column("id").to_pylist():
                yield job.route(source)

    return function


def _aggregating(job: Job) -> Any:
    def function(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        received = [batch for batch in batches if len(batch)]
        if received:
            worker = received[0].column("worker")[0].as_py()
            yield from job.aggregate(worker, [p for b in received for p in b.column("payload").to_pylist()])

    return function
