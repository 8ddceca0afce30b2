"""A micro-batch on the executors: count the lines, merge into the state.

The stages are plain functions over rows (`engine.wire`), so the batch is a job of RDDs. As a query of
DataFrames the same stages took the driver's JVM half as much time again to plan (0.12 instead of 0.08 s).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError

from sluice.engine.dealt_out import dealt_out
from sluice.engine.wire import FOUND, SENT, to_ipc
from sluice.spark.workers import with_metrics
from sluice.speed.dealt import Dealt
from sluice.speed.partition_pass import Gathered, PartitionPass
from sluice.speed.routed.worker import WorkerPass
from sluice.state.dealing import Dealing
from sluice.transmission.line_schema import HOST, SRC_FILE

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

#: A stage: it takes batches of LINE_SCHEMA, FOUND or SENT, and yields batches of FOUND or SENT.
Stage = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
#: A row between two stages: the number of the task that it is for, its kind, its payload.
Row = tuple[int, tuple[str, bytes]]


class JobFailed(RuntimeError):
    """A task of a batch failed, and failed again when Spark repeated it."""

    def __init__(self, text: str) -> None:
        super().__init__(raised(text))


class LineSource(Protocol):
    """The lines of a batch."""

    def parts(self, most: int | None = None) -> Sequence[Iterable[pa.RecordBatch]]:
        """The lines as LINE_SCHEMA, in at most `most` parts; None: in a part for each partition.

        A part is picklable, and is read where it is counted.
        """


@dataclass(frozen=True)
class Here:
    """Runs a small batch without routes in this process: a job would take longer than its work."""

    lines: LineSource

    def __call__(self, work: PartitionPass, dealing: Dealing, merging: Stage, dealt: bool) -> Gathered:
        """The lines are a single part, in which all copies of a line meet, so `dealt` changes nothing."""
        batches = (batch for part in self.lines.parts(1) for batch in part)
        merged = merging(Dealt(work, dealing)(batches))
        return Gathered.of(pa.Table.from_batches(merged, FOUND))


@dataclass(frozen=True)
class OnExecutors:
    """Runs a batch as a Spark job."""

    context: SparkContext
    lines: LineSource

    def __call__(self, work: PartitionPass, dealing: Dealing, merging: Stage, dealt: bool) -> Gathered:
        """`dealt` is an argument of `doubles.Pass`. Raises JobFailed."""
        batches = self._batches(by_partition=work.routes is not None, dealt=dealt)
        if work.routes is None:
            counted = batches.mapPartitions(partial(_sent, with_metrics(Dealt(work, dealing))))
        else:
            sent = _shuffled(batches.mapPartitions(partial(_sent, with_metrics(work))), work.routes.workers)
            counted = sent.mapPartitions(
                partial(_resent, with_metrics(Dealt(WorkerPass(work.plan), dealing)))
            )
        merged = _shuffled(counted, dealing.tasks).mapPartitions(partial(_found, with_metrics(merging)))
        try:
            found = merged.collect()
        except Py4JJavaError as error:
            raise JobFailed(str(error)) from error
        kinds, payloads = zip(*found, strict=True) if found else ((), ())
        columns = [pa.array(kinds, pa.string()), pa.array(payloads, pa.binary())]
        return Gathered.of(pa.table(columns, schema=FOUND))

    def _batches(self, *, by_partition: bool, dealt: bool) -> RDD[pa.RecordBatch]:
        """The lines as the first stage gets them.

        A router depends on the order of its tuples: if Spark repeats a lost task of the first stage, each
        tuple must go to the same worker as before, because otherwise a worker that is done lacks it. A
        shuffle guarantees no order, so lines that were dealt out are put into their order again.
        """
        tasks = self.context.defaultParallelism
        parts = self.lines.parts(None if by_partition else tasks)
        read = self.context.parallelize(parts, len(parts))
        if not dealt:
            return read.mapPartitions(_all)
        return _shuffled(read.mapPartitions(partial(_by_file, tasks)), tasks).mapPartitions(_in_order)


def raised(text: str) -> str:
    """What Python raised in a failed task, from Spark's message about the job; the message if nothing was."""
    trace = text.rpartition("Traceback (most recent call last):\n")[2].partition("\n\n")[0]
    own = [line for line in trace.splitlines() if line and not line[0].isspace()]
    return "\n".join(own) or text


def _shuffled(rows: RDD[Row], tasks: int) -> RDD[Row]:
    """The same rows, each in the partition that it names."""
    return rows.partitionBy(tasks, int)


def _all(parts: Iterable[Iterable[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    return (batch for part in parts for batch in part)


def _sent(stage: Stage, batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    for batch in stage(batches):
        kinds, payloads, targets = (column.to_pylist() for column in batch.columns)
        yield from zip(targets, zip(kinds, payloads, strict=True), strict=True)


def _resent(stage: Stage, rows: Iterable[Row]) -> Iterator[Row]:
    return _sent(stage, _batches(rows))


def _found(stage: Stage, rows: Iterable[Row]) -> Iterator[tuple[str, bytes]]:
    for batch in stage(_batches(rows)):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _batches(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Each row as a batch of SENT: together they may have more bytes than a column takes."""
    for target, (kind, payload) in rows:
        columns = zip(([kind], [payload], [target]), SENT, strict=True)
        yield pa.RecordBatch.from_arrays([pa.array(v, f.type) for v, f in columns], schema=SENT)


def _by_file(tasks: int, parts: Iterable[Iterable[pa.RecordBatch]]) -> Iterator[Row]:
    """Lines for `tasks` tasks: those of a file go to one task, however they were cut into records.

    A line without a file has no copy, so its partition says where it goes.
    """
    for batch in _all(parts):
        host, file, partition = (batch.column(name) for name in (HOST, SRC_FILE, "partition"))
        file = pc.binary_join_element_wise(host, file, "\0")
        names = pc.coalesce(file, partition.cast(pa.string())).dictionary_encode()
        hashed = [zlib.crc32(name.encode()) % tasks for name in names.dictionary.to_pylist()]
        targets = np.array(hashed)[names.indices.to_numpy()]
        place = f"{partition[0].as_py():010d}{batch.column('offset')[0].as_py():020d}"
        for target, own in dealt_out(pa.Table.from_batches([batch]), targets):
            yield target, (place, to_ipc(own))


def _in_order(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """The lines of all parts, in the order of partitions and offsets: a line's first copy counts."""
    for _, payload in sorted(map(itemgetter(1), rows)):
        yield from pa.ipc.open_stream(payload).read_all().combine_chunks().to_batches()
