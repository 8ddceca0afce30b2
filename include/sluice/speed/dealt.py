"""The last step before the state: a stage's partial aggregates go to the tasks that merge them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.wire import HELD, HOLDERS, PARTIAL, ROUTED, SENT, to_ipc
from sluice.state.dealing import Dealing


@dataclass(frozen=True)
class Dealt:
    """A stage whose rows (FOUND or SENT) go on to the state's tasks; picklable.

    Its partial aggregates are split by the task that merges them. Any other row goes to any task, which
    passes it on. Of a worker's partial aggregates it is noted which keys they are of.
    """

    stage: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    dealing: Dealing

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of SENT, with the number of a task of the state in the place of the worker's."""
        for batch in self.stage(batches):
            if batch.num_rows:
                own = pc.is_in(batch.column("kind"), pa.array([PARTIAL, ROUTED]))
                yield self._others(batch.filter(pc.invert(own)))
                yield self._dealt(batch.filter(own))

    def _others(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        targets = pa.array(np.arange(rows.num_rows) % self.dealing.tasks, pa.int32())
        return pa.RecordBatch.from_arrays([rows.column("kind"), rows.column("payload"), targets], schema=SENT)

    def _dealt(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The partial aggregates, and for those of workers the keys that they are of."""
        found: list[tuple[str, bytes, int]] = []
        workers = rows.column("worker").to_pylist() if "worker" in rows.schema.names else []
        for number, (kind, payload) in enumerate(
            zip(rows.column("kind").to_pylist(), rows.column("payload"), strict=True)
        ):
            partials = pa.ipc.open_stream(payload.as_buffer()).read_all()
            found += [(PARTIAL, to_ipc(own), target) for target, own in self.dealing(partials)]
            if kind == ROUTED:
                found.append((HELD, to_ipc(_held(partials, workers[number])), number % self.dealing.tasks))
        kinds, payloads, targets = zip(*found, strict=True) if found else ((), (), ())
        columns = zip((kinds, payloads, targets), SENT, strict=True)
        return pa.RecordBatch.from_arrays(
            [pa.array(values, each.type) for values, each in columns], schema=SENT
        )


def _held(partials: pa.Table, worker: int) -> pa.Table:
    names = partials.select(["task_id", "version", "key"])
    return names.append_column("worker", pa.array([worker] * len(names), pa.int32())).cast(HOLDERS)
