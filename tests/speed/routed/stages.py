"""A batch through one stage or two without Spark; each slice is a source."""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields

import pyarrow as pa

from sluice.engine import wire
from sluice.engine.merge import merge_guarded
from sluice.engine.plan import EnginePlan
from sluice.engine.schema import partials_schema
from sluice.engine.set_aside import Version, without
from sluice.engine.wire import FOUND, KEYS, PARTIAL, SENT, rows_of
from sluice.grouping import STRATEGIES
from sluice.speed.dealt import Dealt
from sluice.speed.ledger import ByteLedger
from sluice.speed.partition_pass import Gathered, PartitionPass
from sluice.speed.routed.learning import learnt
from sluice.speed.routed.routes import Routes
from sluice.speed.routed.topic_routing import TopicRouting
from sluice.speed.routed.worker import WorkerPass
from sluice.state.dealing import Dealing
from sluice.tasks import ActiveTask
from sluice.tasks.grouping import GroupingSpec
from tests.messages import unsigned

#: The strategies that send tuples.
ROUTED = [name for name in STRATEGIES if name != "combine"]


@dataclass(frozen=True)
class Merged(Gathered):
    """A batch, and the partial aggregates that its state would be merged with."""

    partials: pa.Table = field(default_factory=partials_schema().empty_table)

    @classmethod
    def of(cls, rows: pa.Table) -> Merged:
        """Put together rows of FOUND or SENT that were not merged into a state."""
        found = Gathered.of(pa.Table.from_batches(Echo()(rows.to_batches()), FOUND))
        parts, failed = [partials_schema().empty_table()], dict(found.failed)
        for kind, payload in zip(rows.column("kind").to_pylist(), rows.column("payload"), strict=True):
            if kind in (PARTIAL, wire.ROUTED):
                parts.append(pa.ipc.open_stream(payload.as_buffer()).read_all())
        partials, unmerged = merge_guarded(without(pa.concat_tables(parts), failed))
        all_found = {each.name: getattr(found, each.name) for each in fields(Gathered)}
        return cls(**all_found | {"failed": failed | unmerged}, partials=partials)


@dataclass(frozen=True)
class Echo:
    """In the place of the state's tasks: it learns of the keys, and passes all rows on."""

    routed: frozenset[Version] = frozenset()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts = [partials_schema().empty_table()]
        for batch in batches:
            yield batch.select(FOUND.names)
            for kind, payload in zip(batch["kind"].to_pylist(), batch["payload"], strict=True):
                if kind in (PARTIAL, wire.ROUTED):
                    parts.append(pa.ipc.open_stream(payload.as_buffer()).read_all())
        yield rows_of([(KEYS, learnt(merge_guarded(pa.concat_tables(parts))[0], self.routed))])


def one_stage(plan: EnginePlan, slices: Sequence[Sequence[bytes]]) -> Merged:
    """A batch without routed tasks, up to the state."""
    work = Dealt(PartitionPass(plan, "logs", ByteLedger().to_table()), Dealing(2))
    batches = [batch for n, lines in enumerate(slices) for batch in work([unsigned(lines, n)])]
    return Merged.of(pa.Table.from_batches(batches, SENT))


def sent(plan: EnginePlan, routes: Routes, slices: Sequence[Sequence[bytes]]) -> list[pa.RecordBatch]:
    """What the sources send; the slices are the partitions 0, 1, 2 ..."""
    shipped = pickle.loads(pickle.dumps(routes))  # noqa: S301 - as Spark does
    work = PartitionPass(plan, "logs", ByteLedger().to_table(), shipped)
    return [batch for n, lines in enumerate(slices) for batch in work([unsigned(lines, n)])]


def received(batches: Iterable[pa.RecordBatch]) -> dict[int, list[pa.RecordBatch]]:
    """The rows of each worker, each row a batch of its own."""
    found: defaultdict[int, list[pa.RecordBatch]] = defaultdict(list)
    for batch in batches:
        for row, worker in enumerate(batch.column("worker").to_pylist()):
            found[worker].append(batch.slice(row, 1))
    return found


def two_stages(plan: EnginePlan, routes: Routes, slices: Sequence[Sequence[bytes]]) -> Merged:
    """A batch with routed tasks, up to the state."""
    work = Dealt(WorkerPass(plan), Dealing(2))
    found = [batch for own in received(sent(plan, routes, slices)).values() for batch in work(iter(own))]
    return Merged.of(pa.Table.from_batches(found, SENT))


def by_version(tasks: Sequence[ActiveTask]) -> dict[Version, ActiveTask]:
    return {(task.task_id, task.version): task for task in tasks}


def routes_of(tasks: Mapping[Version, ActiveTask], grouping: str, *, workers: int, sources: int) -> Routes:
    """The first routes of all tasks, grouped by one strategy."""
    default = GroupingSpec.model_validate(grouping)
    found = TopicRouting(workers).routes(tasks, default, range(sources))
    assert found is not None
    return found
