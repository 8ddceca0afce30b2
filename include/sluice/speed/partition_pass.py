"""The executors' part of a micro-batch: one pass over a partition's lines for all tasks.

`PartitionPass` is what a Spark task does with the lines of one Kafka partition, or of several. Its findings
are rows of several kinds (`engine.wire`). The partial aggregates go on to the tasks that merge them into the
state (`speed.state_pass`), the rest to the driver, where `Gathered` puts it together. For tasks that are
routed the pass sends tuples instead, to workers in a stage of their own (`speed.routed`).

The pass decides which lines are doubles by a few intervals only: those that this partition itself brought,
and the `known` ones that the driver sent. That is enough when no other file and no other partition brought a
double. The driver checks exactly that with the complete ledger, and runs the pass again if not.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine import spent as spending
from sluice.engine.batches import together
from sluice.engine.count import count
from sluice.engine.merge import merge_guarded
from sluice.engine.outcomes import SKIPPED, TALLIES, Reckoning, first_samples, summed
from sluice.engine.plan import EnginePlan
from sluice.engine.set_aside import Failures, Version, from_table, to_table
from sluice.engine.spent import Spent
from sluice.engine.wire import (
    ARRIVED,
    COUNTS,
    DAMAGED,
    DAYS,
    DEAD,
    FAILED,
    HELD,
    HOLDERS,
    KEYS,
    LOST,
    OLD,
    OUTGROWN,
    PARTIAL,
    ROUTERS,
    SEEN,
    SKIP,
    SPENT,
    STATE,
    STATED,
    TAKEN,
    TALLY,
    rows_of,
)
from sluice.runtime.arrays import Bools, Ints
from sluice.runtime.days import DAY_MS
from sluice.speed import observed
from sluice.speed.ledger import ByteLedger
from sluice.speed.routed import routes as routing
from sluice.speed.routed.learning import LEARNT
from sluice.speed.routed.routes import Routes, Sender
from sluice.transmission.line_identity import identify
from sluice.transmission.line_schema import (
    HOST,
    IDENTITY,
    LAST_OFFSET,
    LINE_IN_RECORD,
    SRC_FILE,
    SRC_OFFSET,
    UNREADABLE,
)

#: The most bytes of its line that a dead letter keeps: enough to see what is wrong with it.
DEAD_LETTER_BYTES = 4 << 10
# A pass keeps at most DEAD_BYTES of its dead letters' lines: a topic of nothing else must still fit into the
# driver.
DEAD_BYTES = 8 << 20

KEPT = ("partition", "offset", LINE_IN_RECORD, *IDENTITY, UNREADABLE, LAST_OFFSET)
DEAD_LETTERS = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        (LINE_IN_RECORD, pa.int32()),
        ("host", pa.string()),
        ("src_file", pa.string()),
        ("src_offset", pa.int64()),
        ("reason", pa.string()),
        ("bytes", pa.int64()),
        ("line", pa.binary()),  # its beginning
        ("arrived_at", pa.timestamp("ms", "UTC")),
        (UNREADABLE, pa.string()),  # what was wrong with the record's bytes
        (LAST_OFFSET, pa.int64()),  # of the records that could not be read
    ]
)


@dataclass(frozen=True)
class PartitionPass:
    """One pass over one slice of the lines; picklable."""

    plan: EnginePlan
    topic: str
    known: pa.Table  # intervals of ByteLedger.to_table, of few files
    routes: Routes | None = None  # None: every task is aggregated here, and rows have no worker

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Count lines (LINE_SCHEMA). No batch ends inside a record; with routes they are of one partition."""
        os.environ.setdefault("POLARS_MAX_THREADS", "1")
        pa.set_cpu_count(1)
        began = time.thread_time_ns()
        known, fresh = ByteLedger.from_table(self.known), ByteLedger()
        found: defaultdict[str, list[pa.Table]] = defaultdict(list)
        number = size = doubled = dead = 0
        failed: Failures = {}
        spent: list[Spent] = []
        reckoning = Reckoning()
        source, sender = 0, None
        for batch in together(batches):
            lines, ends = identify(batch, self.topic)
            if not number:  # a slice is a partition of the topic, unless the lines were distributed again
                source = lines.column("partition")[0].as_py()
                sender = Sender(self.routes, source) if self.routes is not None else None
            found[ARRIVED].append(observed.arrivals(lines, time.time_ns() // 1_000_000))
            new = claim(known, fresh, lines, ends)
            unique = lines if new.all() else lines.filter(pa.array(new))
            routed = sender.routed if sender is not None else ()
            plan = replace(self.plan, sampled=self.plan.sampled | reckoning.sampled)
            counted = count(unique, plan.without(failed), routed=routed, source=source)
            failed |= counted.failed
            spent += counted.spent
            if sender is not None:
                yield from sender.send(counted.tuples, failed)
            alive = counted.reason.is_null()
            found[PARTIAL].append(counted.partials)
            found[DAYS].append(days(unique, counted.event_ms, alive))
            found[DEAD].append(self._dead_letters(unique, counted.reason, alive))
            reckoning.add(counted.tallies, counted.skipped)
            number += len(lines)
            size += pc.sum(pc.binary_length(lines.column("line"))).as_py()
            doubled += len(lines) - len(unique)
            dead += found[DEAD][-1].num_rows
        if not number:
            return
        found[SEEN].append(fresh.to_table())
        _of_tasks(found, failed, spent, reckoning)
        if sender is not None:
            found[ROUTERS].append(sender.routers())
        counts = {"lines": [number], "bytes": [size], "doubled": [doubled], "dead": [dead]}
        taken = (time.thread_time_ns() - began) // 1000
        found[COUNTS].append(pa.table({**counts, "pass_us": [taken]}))
        tables = ((kind, table) for kind, some in found.items() for table in some)
        yield rows_of(tables, source % self.routes.workers if self.routes is not None else None)

    def _dead_letters(self, lines: pa.RecordBatch, reason: pa.Array, alive: pa.Array) -> pa.Table:
        lost = lines.filter(pc.invert(alive))
        line = lost.column("line")
        most = min(DEAD_LETTER_BYTES, DEAD_BYTES // max(1, len(line)))
        kept = {name: lost.column(name) for name in KEPT}
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


def _of_tasks(
    found: defaultdict[str, list[pa.Table]], failed: Failures, spent: Sequence[Spent], reckoning: Reckoning
) -> None:
    """Add what the slice's tasks did to `found`, and merge its partial aggregates."""
    if len(found[PARTIAL]) > 1:
        merged, unmerged = merge_guarded(pa.concat_tables(found[PARTIAL]))
        found[PARTIAL] = [merged]
        failed |= unmerged
    found[TAKEN] += [observed.taken(table) for table in found[PARTIAL]]
    found[TALLY], found[SKIP] = ([table] for table in reckoning.tables)
    found[FAILED], found[SPENT] = [to_table(failed)], [spending.to_table(spent)]


def claim(known: ByteLedger, fresh: ByteLedger, lines: pa.RecordBatch, ends: Ints) -> Bools:
    """Which lines of these whole records neither ledger has; from now on `fresh` has them."""
    place, starts = (np.asarray(lines.column(name)) for name in (LINE_IN_RECORD, SRC_OFFSET))
    hosts, files = lines.column(HOST), lines.column(SRC_FILE)
    return fresh.claim(hosts, files, starts, ends, runs=np.flatnonzero(place == 0), known=known)


def days(lines: pa.RecordBatch, event_ms: Ints, alive: pa.Array) -> pa.Table:
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


@dataclass(frozen=True)
class Gathered:
    """What all tasks of a batch found together."""

    seen: Sequence[pa.Table]  # the new intervals of each slice
    days: pa.Table
    dead_letters: pa.Table
    # What became of the lines that have a time, and samples of those that a task skipped.
    tallies: pa.Table = field(default_factory=TALLIES.empty_table)
    skipped: pa.Table = field(default_factory=SKIPPED.empty_table)
    counts: Mapping[str, int] = field(default_factory=dict)  # of a commit (`storage.tables.commits`)
    pass_us: int = 0  # CPU time of the pass, from reading the records to the partial aggregates
    failed: Mapping[Version, str] = field(default_factory=dict)
    # What became of the state: the periods that were changed, and columns of layouts that they outgrew.
    stated: pa.Table = field(default_factory=STATED.empty_table)
    outgrown: pa.Table = field(default_factory=OUTGROWN.empty_table)
    damaged: pa.Table = field(default_factory=DAMAGED.empty_table)  # then nothing counts
    # What grouping learns from: the keys, times by task and place, the routers' present state, and the
    # holders of keys.
    learnt: pa.Table = field(default_factory=LEARNT.empty_table)
    spent: pa.Table = field(default_factory=spending.SPENT.empty_table)
    routers: pa.Table = field(default_factory=routing.ROUTERS.empty_table)
    holders: pa.Table = field(default_factory=HOLDERS.empty_table)
    # What operators read (`observed`).
    arrived: pa.Table = field(default_factory=observed.ARRIVED.empty_table)
    taken: Sequence[pa.Table] = ()

    @classmethod
    def of(cls, rows: pa.Table) -> Gathered:
        """Put together the rows (FOUND) that the batch's last stage yielded."""
        found: defaultdict[str, list[pa.Table]] = defaultdict(list)
        for kind, payload in zip(rows.column("kind").to_pylist(), rows.column("payload"), strict=True):
            found[kind].append(pa.ipc.open_stream(payload.as_buffer()).read_all())
        failed = {version: why for table in found[FAILED] for version, why in from_table(table).items()}
        sums = {
            name: sum(int(pc.sum(table.column(name)).as_py()) for table in found[COUNTS])
            for name in ("lines", "bytes", "doubled", "dead", "pass_us")
        }
        pass_us = sums.pop("pass_us")
        return cls(
            seen=found[SEEN],
            days=_sum_days(found[DAYS]),
            dead_letters=pa.concat_tables([DEAD_LETTERS.empty_table(), *found[DEAD]]),
            tallies=summed(found[TALLY]),
            skipped=first_samples(found[SKIP]),
            counts={
                **sums,
                "counted": sums["lines"] - sums["doubled"] - sums["dead"],
            },
            pass_us=pass_us,
            failed=failed,
            stated=pa.concat_tables([STATED.empty_table(), *found[STATE]]),
            outgrown=pa.concat_tables([OUTGROWN.empty_table(), *found[OLD]]),
            damaged=pa.concat_tables([DAMAGED.empty_table(), *found[LOST]]),
            learnt=pa.concat_tables([LEARNT.empty_table(), *found[KEYS]]),
            spent=pa.concat_tables([spending.SPENT.empty_table(), *found[SPENT]]),
            routers=pa.concat_tables([routing.ROUTERS.empty_table(), *found[ROUTERS]]),
            holders=pa.concat_tables([HOLDERS.empty_table(), *found[HELD]]),
            arrived=pa.concat_tables([observed.ARRIVED.empty_table(), *found[ARRIVED]]),
            taken=found[TAKEN],
        )


def _sum_days(tables: Sequence[pa.Table]) -> pa.Table:
    empty = pa.schema(
        [("day", pa.int64()), ("partition", pa.int32()), ("lines", pa.int64()), ("last_offset", pa.int64())]
    ).empty_table()
    grouped = pa.concat_tables([empty, *tables]).group_by(["day", "partition"], use_threads=False)
    summed = grouped.aggregate([("lines", "sum"), ("last_offset", "max")])
    return summed.rename_columns({"lines_sum": "lines", "last_offset_max": "last_offset"})
