"""A batch as a Spark job: sources, `repartitionById` to each row's own worker, workers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sluice_lab.bench import spark
from sluice_lab.bench.grouping_stages import FOUND, SENT, GroupingJob

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Longer than a Python process takes to be forked.
_TOGETHER = 0.5


@contextmanager
def cluster(slots: int) -> Iterator[SparkSession]:
    """Spark with so many slots, each with a Python process that has loaded the strategies."""
    config = {"spark.python.daemon.module": "sluice_lab.bench.grouping_daemon"}
    with spark.session(f"bench grouping on {slots}", slots, config) as session:
        # As in the speed layer: streaming does not support it, and it would replan the second stage.
        session.conf.set("spark.sql.adaptive.enabled", "false")
        session.range(0, slots, 1, slots).mapInArrow(_together, "id bigint").toArrow()
        yield session


def run(session: SparkSession, job: GroupingJob) -> pa.Table:
    """The job's rows of FOUND, from one stage if the strategy combines, else from two."""
    sources = session.range(0, len(job.slices), 1, len(job.slices))
    if job.strategy.combines:
        return sources.mapInArrow(_combining(job), FOUND).toArrow()
    sent = sources.mapInArrow(_routing(job), SENT)
    workers = job.cluster.workers
    return sent.repartitionById(workers, "worker").mapInArrow(_aggregating(job), FOUND).toArrow()


# Spark runs these at the slots. It ships the code of the inner functions; what they call is imported there.


def _together(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    time.sleep(_TOGETHER)  # else a process that is ready would take the next one's place
    yield from batches


def _combining(job: GroupingJob) -> Any:
    def function(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for source in batch.column("id").to_pylist():
                yield from job.combine(source)

    return function


def _routing(job: GroupingJob) -> Any:
    def function(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for source in batch.column("id").to_pylist():
                yield job.route(source)

    return function


def _aggregating(job: GroupingJob) -> Any:
    def function(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        received = [batch for batch in batches if len(batch)]
        if received:
            worker = received[0].column("worker")[0].as_py()
            yield from job.aggregate(worker, [p for b in received for p in b.column("payload").to_pylist()])

    return function
