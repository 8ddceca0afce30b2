"""The executors' part of a micro-batch: one pass over a partition's lines for all tasks.

`PartitionPass` is the function that `mapInArrow` runs on a Kafka partition. Its findings come back in rows of
several kinds (`engine.wire`), which `Gathered` puts together on the driver. For tasks that are routed the
pass sends tuples instead, to workers in a second stage (`speed.routed`).

The pass decides which lines are doubles by a few intervals only: those that this partition itself brought,
and the `known` ones that the driver sent. That is enough when no other file and no other partition brought a
double. The driver checks exactly that with the complete ledger, and runs the pass again if not.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine import spent as spending
from sluice.engine.batches import together
from sluice.engine.count import count
from sluice.engine.merge import merge_guarded
from sluice.engine.plan import EnginePlan
from sluice.engine.schema import partials_schema
from sluice.engine.set_aside import Failures, Version, from_table, to_table, without
from sluice.engine.spent import Spent
from sluice.engine.wire import (
    COUNTS,
    DAYS,
    DEAD,
    FAILED,
    PARTIAL,
    ROUTED,
    ROUTERS,
    SEEN,
    SPENT,
    rows_of,
)
from sluice.runtime.days import DAY_MS
from sluice.speed.ledger import ByteLedger
from sluice.speed.routed import routes as routing
from sluice.speed.routed.routes import Routes, Sender
from sluice.transmission.lines import decode, identify
from sluice.transmission.records import IDENTITY

# A pass keeps so much of its dead letters' lines: a topic of nothing else must still fit into the driver.
DEAD_BYTES = 8 << 20

DEAD_LETTERS = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("host", pa.string()),
        ("src_file", pa.string()),
        ("src_offset", pa.int64()),
        ("reason", pa.string()),
        ("bytes", pa.int64()),
        ("line", pa.binary()),  # its beginning
        ("arrived_at", pa.timestamp("ms", "UTC")),
    ]
)


@dataclass(frozen=True)
class PartitionPass:
    """One pass over one slice of the lines; picklable."""

    plan: EnginePlan
    topic: str
    known: pa.Table  # intervals of ByteLedger.to_table, of few files
    key: bytes = field(repr=False)  # for the records' identities
    routes: Routes | None = None  # None: every task is aggregated here, and rows have no worker

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        os.environ.setdefault("POLARS_MAX_THREADS", "1")
        pa.set_cpu_count(1)
        known, fresh = ByteLedger.from_table(self.known), ByteLedger()
        found: defaultdict[str, list[pa.Table]] = defaultdict(list)
        records = doubled = dead = 0
        failed: Failures = {}
        spent: list[Spent] = []
        source, sender = 0, None
        for batch in together(batches):
            lines, ends = identify(decode(batch, self.key), self.topic)
            if not records:  # a slice is a partition of the topic, unless the lines were distributed again
                source = lines.column("partition")[0].as_py()
                sender = Sender(self.routes, source) if self.routes is not None else None
            unique = lines.filter(pa.array(self._claim(known, fresh, lines, ends)))
            routed = sender.routed if sender is not None else ()
            counted = count(unique, self.plan.without(failed), routed=routed, source=source)
            failed |= counted.failed
            spent += counted.spent
            if sender is not None:
                yield from sender.send(counted.tuples, failed)
            alive = counted.reason.is_null()
            found[PARTIAL].append(counted.partials)
            found[DAYS].append(days(unique, counted.event_ms, alive))
            found[DEAD].append(self._dead_letters(unique, counted.reason, alive))
            records += len(lines)
            doubled += len(lines) - len(unique)
            dead += found[DEAD][-1].num_rows
        if not records:
            return
        found[SEEN].append(fresh.to_table())
        found[COUNTS].append(pa.table({"records": [records], "doubled": [doubled], "dead": [dead]}))
        if len(found[PARTIAL]) > 1:
            merged, unmerged = merge_guarded(pa.concat_tables(found[PARTIAL]))
            found[PARTIAL] = [merged]
            failed |= unmerged
        found[FAILED].append(to_table(failed))
        found[SPENT].append(spending.to_table(spent))
        if sender is not None:
            found[ROUTERS].append(sender.routers())
        tables = ((kind, table) for kind, some in found.items() for table in some)
        yield rows_of(tables, source % self.routes.workers if self.routes is not None else None)

    def _claim(self, known: ByteLedger, fresh: ByteLedger, lines: pa.RecordBatch, ends: Any) -> Any:
        """Which lines are new; from now on they count as seen."""
        hosts, files = lines.column("host"), lines.column("src_file")
        starts = lines.column("src_offset").to_numpy(zero_copy_only=False)
        if not self.known.num_rows:
            return fresh.claim(hosts, files, starts, ends)
        first = ~known.seen(hosts, files, starts)
        where = np.flatnonzero(first)
        if len(where) < len(first):
            at = pa.array(where)
            hosts, files, starts, ends = hosts.take(at), files.take(at), starts[where], ends[where]
        first[where] = fresh.claim(hosts, files, starts, ends)
        return first

    def _dead_letters(self, lines: pa.RecordBatch, reason: pa.Array, alive: pa.Array) -> pa.Table:
        lost = lines.filter(pc.invert(alive))
        line = lost.column("line")
        most = min(self.plan.limits.dead_letter_bytes, DEAD_BYTES // max(1, len(line)))
        kept = {name: lost.column(name) for name in ("partition", "offset", *IDENTITY)}
        return pa.table(
            {
                **kept,
                "reason": reason.filter(pc.invert(alive)),
                "bytes": pc.binary_length(line).cast(pa.int64()),
                "line": pc.binary_slice(line, 0, most),
                "arrived_at": lost.column("arrival").cast(pa.timestamp("ms", "UTC")),
            },
            schema=DEAD_LETTERS,
        )


def days(lines: pa.RecordBatch, event_ms: Any, alive: pa.Array) -> pa.Table:
    """Counted lines and their last offset, by partition and day of event time since the epoch."""
    table = pa.table(
        {
            "day": pa.array(event_ms // DAY_MS),
            "partition": lines.column("partition"),
            "offset": lines.column("offset"),
        }
    ).filter(alive)
    grouped = table.group_by(["day", "partition"], use_threads=False)
    summed = grouped.aggregate([("offset", "count"), ("offset", "max")])
    return summed.rename_columns({"offset_count": "lines", "offset_max": "last_offset"})


#: Which workers hold a partial aggregate of a task's key.
HOLDERS = pa.schema(
    [("task_id", pa.int32()), ("version", pa.int32()), ("key", pa.string()), ("worker", pa.int32())]
)


@dataclass(frozen=True)
class Gathered:
    """What all partitions of a batch found together."""

    partials: pa.Table  # PARTIALS, merged
    seen: Sequence[pa.Table]  # the new intervals of each slice
    days: pa.Table
    dead_letters: pa.Table
    counts: Mapping[str, int] = field(default_factory=dict)  # records, doubled, counted, dead
    failed: Mapping[Version, str] = field(default_factory=dict)  # versions in no partition's partials
    # What grouping learns from: times by task and place, the routers' present state, and the holders of keys.
    spent: pa.Table = field(default_factory=spending.SPENT.empty_table)
    routers: pa.Table = field(default_factory=routing.ROUTERS.empty_table)
    holders: pa.Table = field(default_factory=HOLDERS.empty_table)

    @classmethod
    def of(cls, rows: pa.Table) -> Gathered:
        """Put together the rows that the passes, or the workers of the second stage, yielded."""
        found: defaultdict[str, list[pa.Table]] = defaultdict(list)
        holders = [HOLDERS.empty_table()]
        workers = rows.column("worker").to_pylist() if "worker" in rows.column_names else [None] * len(rows)
        kinds = rows.column("kind").to_pylist()
        for kind, payload, worker in zip(kinds, rows.column("payload"), workers, strict=True):
            table = pa.ipc.open_stream(payload.as_buffer()).read_all()
            found[kind].append(table)
            if kind == ROUTED:
                holders.append(_held(table, worker))
        failed = {version: why for table in found[FAILED] for version, why in from_table(table).items()}
        partials = pa.concat_tables([partials_schema().empty_table(), *found[PARTIAL], *found[ROUTED]])
        merged, unmerged = merge_guarded(without(partials, failed))
        sums = {
            name: sum(int(pc.sum(table.column(name)).as_py()) for table in found[COUNTS])
            for name in ("records", "doubled", "dead")
        }
        return cls(
            partials=merged,
            seen=found[SEEN],
            days=_sum_days(found[DAYS]),
            dead_letters=pa.concat_tables([DEAD_LETTERS.empty_table(), *found[DEAD]]),
            counts={
                "records": sums["records"],
                "doubled": sums["doubled"],
                "counted": sums["records"] - sums["doubled"] - sums["dead"],
                "dead": sums["dead"],
            },
            failed=failed | unmerged,
            spent=pa.concat_tables([spending.SPENT.empty_table(), *found[SPENT]]),
            routers=pa.concat_tables([routing.ROUTERS.empty_table(), *found[ROUTERS]]),
            holders=pa.concat_tables(holders).combine_chunks(),  # a copy: the states may be large
        )


def _held(partials: pa.Table, worker: int) -> pa.Table:
    names = partials.select(["task_id", "version", "key"])
    return names.append_column("worker", pa.array([worker] * len(names), pa.int32())).cast(HOLDERS)


def _sum_days(tables: Sequence[pa.Table]) -> pa.Table:
    empty = pa.schema(
        [("day", pa.int64()), ("partition", pa.int32()), ("lines", pa.int64()), ("last_offset", pa.int64())]
    ).empty_table()
    grouped = pa.concat_tables([empty, *tables]).group_by(["day", "partition"], use_threads=False)
    summed = grouped.aggregate([("lines", "sum"), ("last_offset", "max")])
    return summed.rename_columns({"lines_sum": "lines", "last_offset_max": "last_offset"})
