"""What operators read of a batch beside its counts: when its lines arrived, what each task took of them.

A slice of the batch sends both as small tables, and the driver adds them up. How long a line waited is known
only when the batch is committed, so a slice sends arrivals, not delays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: Lines by arrival: the newest arrival among them (ms since the epoch), and how many they are.
ARRIVED = pa.schema([("newest", pa.int64()), ("lines", pa.int64())])
#: By task version: the lines that it counted, and how many of these had no measure for its metrics.
TAKEN = pa.schema(
    [("task_id", pa.int32()), ("version", pa.int32()), ("lines", pa.int64()), ("skipped", pa.int64())]
)
#: The upper bounds of freshness, in seconds; a line may also be over the last one.
BOUNDS = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0, 86400.0)
OVER = "+Inf"
#: The label of the topic itself among those of task versions (`engine.outcomes.TOPIC`).
TOPIC = "0v0"


@dataclass(frozen=True)
class Freshness:
    """How long lines waited from their arrival in Kafka to their commit."""

    lines: Mapping[str, int]  # by upper bound in seconds, each line once
    milliseconds: int  # the sum over all lines


def arrivals(lines: pa.RecordBatch, now_ms: int) -> pa.Table:
    """The lines by arrival (ARRIVED), together where their ages differ by under a tenth."""
    arrival = np.asarray(lines.column("arrival"))
    # Kafka stamps a producer's whole batch with one time, so there are few runs of equal times.
    runs = np.append(0, np.flatnonzero(np.diff(arrival)) + 1)
    counts = np.diff(np.append(runs, len(arrival)))
    at = arrival[runs]
    age = np.maximum(now_ms - at, 1)
    unit = 10 ** np.clip(np.log10(age).astype(np.int64) - 1, 1, 9)
    rounded, place = np.unique(at - at % unit, return_inverse=True)
    newest = rounded.copy()
    np.maximum.at(newest, place, at)
    total = np.bincount(place, weights=counts, minlength=len(rounded)).astype(np.int64)
    return pa.table({"newest": newest, "lines": total}, schema=ARRIVED)


def taken(partials: pa.Table) -> pa.Table:
    """What the versions of these PARTIALS took (TAKEN); `skipped` is null without a measure."""
    grouped = partials.select(["task_id", "version", "lines", "measured"]).group_by(
        ["task_id", "version"], use_threads=False
    )
    summed = grouped.aggregate([("lines", "sum"), ("measured", "sum")])
    skipped = pc.subtract(summed["lines_sum"], summed["measured_sum"])
    columns = [summed["task_id"], summed["version"], summed["lines_sum"], skipped]
    return pa.table(columns, schema=TAKEN)


def freshness(arrived: pa.Table, committed_ms: int) -> Freshness:
    """The waiting times of lines that are counted since `committed_ms`."""
    waited = np.maximum(committed_ms - arrived["newest"].to_numpy(), 0)
    lines = arrived["lines"].to_numpy()
    place = np.searchsorted(np.array(BOUNDS) * 1000, waited)
    found = np.bincount(place, weights=lines, minlength=len(BOUNDS) + 1).astype(np.int64)
    names = [*(f"{bound:g}" for bound in BOUNDS), OVER]
    return Freshness(dict(zip(names, found.tolist(), strict=True)), int((waited * lines).sum()))


def newest(arrived: pa.Table) -> int | None:
    """When the newest of these lines arrived (ms since the epoch); None without lines."""
    found = pc.max(arrived["newest"]).as_py()
    return None if found is None else int(found)


def by_label(tables: Sequence[pa.Table], column: str) -> dict[str, int]:
    """The sums of a column of TAKEN or TALLIES by task version, as {"1v2": 40}; none where it is null."""
    found: dict[str, int] = {}
    for row in (row for table in tables for row in table.to_pylist() if row[column] is not None):
        label = f"{row['task_id']}v{row['version']}"
        found[label] = found.get(label, 0) + int(row[column])
    return found


def by_reason(dead_letters: pa.Table) -> dict[str, int]:
    """How many dead letters there are for each reason."""
    counted = pc.value_counts(dead_letters["reason"])
    return {each["values"]: int(each["counts"]) for each in counted.to_pylist()}
