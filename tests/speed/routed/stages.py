"""A batch through one stage or two without Spark; each slice is a source."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from sluice.engine.plan import EnginePlan
from sluice.engine.set_aside import Version
from sluice.engine.wire import FOUND_ARROW, SENT_ARROW
from sluice.grouping import STRATEGIES
from sluice.speed.ledger import ByteLedger
from sluice.speed.partition_pass import Gathered, PartitionPass
from sluice.speed.routed.routes import Routes
from sluice.speed.routed.topic import TopicRouting
from sluice.speed.routed.worker import WorkerPass
from sluice.tasks import ActiveTask
from sluice.tasks.grouping import GroupingSpec
from tests.identities import KEY

#: The strategies that send tuples.
ROUTED = [name for name in STRATEGIES if name != "combine"]


def kafka(lines: Sequence[bytes], partition: int = 0, first: int = 0) -> pa.RecordBatch:
    """Records as Spark hands them over, without headers, so each has an identity of its own."""
    size = len(lines)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([partition] * size, pa.int32()),
            pa.array(range(first, first + size), pa.int64()),
            pa.array([0] * size, pa.int64()),
            pa.nulls(size, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
            pa.array(lines, pa.binary()),
        ],
        names=["partition", "offset", "arrival", "headers", "line"],
    )


def one_stage(plan: EnginePlan, slices: Sequence[Sequence[bytes]]) -> Gathered:
    work = PartitionPass(plan, "logs", ByteLedger().to_table(), KEY)
    batches = [batch for n, lines in enumerate(slices) for batch in work([kafka(lines, n)])]
    return Gathered.of(pa.Table.from_batches(batches, FOUND_ARROW))


def sent(plan: EnginePlan, routes: Routes, slices: Sequence[Sequence[bytes]]) -> list[pa.RecordBatch]:
    """What the sources send; the slices are the partitions 0, 1, 2 ..."""
    shipped = pickle.loads(pickle.dumps(routes))  # noqa: S301 - as Spark does
    work = PartitionPass(plan, "logs", ByteLedger().to_table(), KEY, shipped)
    return [batch for n, lines in enumerate(slices) for batch in work([kafka(lines, n)])]


def received(batches: Iterable[pa.RecordBatch]) -> dict[int, list[pa.RecordBatch]]:
    """The rows of each worker, each row a batch of its own."""
    found: defaultdict[int, list[pa.RecordBatch]] = defaultdict(list)
    for batch in batches:
        for row, worker in enumerate(batch.column("worker").to_pylist()):
            found[worker].append(batch.slice(row, 1))
    return found


def two_stages(plan: EnginePlan, routes: Routes, slices: Sequence[Sequence[bytes]]) -> Gathered:
    work = WorkerPass(plan)
    found = [batch for own in received(sent(plan, routes, slices)).values() for batch in work(iter(own))]
    return Gathered.of(pa.Table.from_batches(found, SENT_ARROW))


def by_version(tasks: Sequence[ActiveTask]) -> dict[Version, ActiveTask]:
    return {(task.task_id, task.version): task for task in tasks}


def routes_of(tasks: Mapping[Version, ActiveTask], grouping: str, *, workers: int, sources: int) -> Routes:
    """The first routes of all tasks, grouped by one strategy."""
    default = GroupingSpec.model_validate(grouping)
    found = TopicRouting(workers).routes(tasks, default, range(sources))
    assert found is not None
    return found
