"""What a cluster's slots do with one batch: sources route or combine, workers aggregate.

A source has its slice of the batch in an Arrow file, and its router in the state that the driver left before
the batch. A worker gets what sources cut for it, and serves each tuple at a price (`Wait`, `HashWork`). If a
strategy combines, tuples are served at the source and its partial aggregates go straight to the driver.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sluice.grouping.base import Strategy, WorkerCluster
from sluice.runtime.arrays import Hashes
from sluice_lab.bench.grouping_states import States, aggregate, payloads

#: SENT: what sources send to workers. FOUND: what workers (or sources that combine) send to the driver.
SENT, SENT_ARROW = "worker int, payload binary", pa.schema([("worker", pa.int32()), ("payload", pa.binary())])
FOUND = "worker int, tuples bigint, received bigint, begun double, ended double, busy double, states binary"
FOUND_ARROW = pa.schema(
    [
        ("worker", pa.int32()),
        ("tuples", pa.int64()),
        ("received", pa.int64()),
        ("begun", pa.float64()),
        ("ended", pa.float64()),
        ("busy", pa.float64()),
        ("states", pa.binary()),
    ]
)
TUPLES = pa.schema([("key", pa.uint64()), ("value", pa.uint64())])

#: Called with (values, the worker's t_i), it pays the price of one tuple per value.
Service = Callable[[Hashes, float], None]


@dataclass(frozen=True)
class Wait:
    """Each tuple takes `seconds` times t_i, but no core: any number of slots fit on a machine."""

    seconds: float

    def __call__(self, values: Hashes, time_of_worker: float) -> None:
        time.sleep(len(values) * self.seconds * time_of_worker)


@dataclass(frozen=True)
class HashWork:
    """Each tuple is hashed by BLAKE2b `rounds` times t_i times, like a metric in Python.

    One hash takes about 1 us.
    """

    rounds: int

    def __call__(self, values: Hashes, time_of_worker: float) -> None:
        for _ in range(round(self.rounds * time_of_worker)):
            for value in values.tolist():
                hashlib.blake2b(value.to_bytes(8, "little")).digest()


@dataclass(frozen=True)
class GroupingJob:
    """One batch and how it is grouped; picklable.

    slices: each source's file of TUPLES. carried: what each source's router knows (`Router.carried`).
    size: bytes of a key's state.
    """

    strategy: Strategy
    cluster: WorkerCluster
    slices: Sequence[str]
    carried: Sequence[Mapping[str, Any]]
    service: Service
    size: int

    def route(self, source: int) -> pa.RecordBatch:
        """Cut a source's slice into a payload for each worker that gets a part of it; SENT."""
        pa.set_cpu_count(1)
        tuples = read(self.slices[source])
        router = self.strategy.router(self.cluster, source=source)
        router.resume(self.carried[source])
        targets = router.route(tuples.column("key").to_numpy())
        # NumPy sorts 16 bits by radix, which is four times as fast; there are at most 2**16 workers.
        order = np.argsort(targets.astype(np.uint16), kind="stable")
        apart = tuples.take(pa.array(order))
        ends = np.searchsorted(targets[order], np.arange(self.cluster.workers + 1))
        workers = np.flatnonzero(np.diff(ends))
        pieces = [apart.slice(ends[w], ends[w + 1] - ends[w]).serialize().to_pybytes() for w in workers]
        columns = [pa.array(workers, pa.int32()), pa.array(pieces, pa.binary())]
        return pa.RecordBatch.from_arrays(columns, schema=SENT_ARROW)

    def aggregate(self, worker: int, pieces: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
        """Serve and aggregate what the sources sent to a worker; FOUND."""
        begun = time.time()
        pa.set_cpu_count(1)
        tuples = pa.concat_batches([pa.ipc.read_record_batch(piece, TUPLES) for piece in pieces])
        yield from self._served(worker, tuples, self.cluster.times[worker], begun, sum(map(len, pieces)))

    def combine(self, source: int) -> Iterator[pa.RecordBatch]:
        """Serve and aggregate a source's slice at the source; FOUND. Slots have sources evenly."""
        begun = time.time()
        pa.set_cpu_count(1)
        time_of_worker = self.cluster.times[source * self.cluster.workers // len(self.slices)]
        yield from self._served(source, read(self.slices[source]), time_of_worker, begun, 0)

    def _served(
        self, worker: int, tuples: pa.RecordBatch, time_of_worker: float, begun: float, received: int
    ) -> Iterator[pa.RecordBatch]:
        keys, values = (tuples.column(name).to_numpy() for name in TUPLES.names)
        serving = time.perf_counter()
        self.service(values, time_of_worker)
        busy = time.perf_counter() - serving
        aggregating = time.thread_time()
        states = aggregate(keys, values, self.size)
        busy += time.thread_time() - aggregating
        return found(SlotLoad(worker, len(keys), received, begun, time.time(), busy), states)


class SlotLoad(NamedTuple):
    """What a worker (or a source that combines) had to do with a batch.

    received: bytes. begun, ended: Unix time. busy: seconds that its tuples took, not counting aggregation's
    waits for a core.
    """

    worker: int
    tuples: int
    received: int = 0
    begun: float = 0.0
    ended: float = 0.0
    busy: float = 0.0


def found(load: SlotLoad, states: States) -> Iterator[pa.RecordBatch]:
    """A row for each 8 MiB of states; the first has the load, the others count no tuples."""
    for nth, piece in enumerate(payloads(states)):
        row = [*(SlotLoad(load.worker, 0) if nth else load), piece]
        yield pa.RecordBatch.from_arrays(
            [pa.array([value], field.type) for value, field in zip(row, FOUND_ARROW, strict=True)],
            schema=FOUND_ARROW,
        )


def write(path: str, keys: Hashes, values: Hashes) -> None:
    """Write a source's slice."""
    with pa.ipc.new_file(path, TUPLES) as writer:
        writer.write_batch(pa.record_batch([pa.array(keys), pa.array(values)], schema=TUPLES))


def read(path: str) -> pa.RecordBatch:
    with pa.memory_map(path) as file:
        return pa.ipc.open_file(file).get_batch(0)
