"""What becomes of a line that has a time: a task counts it, filters it out, or skips it for a reason.

A line is judged by a task alone, whatever other tasks there are, and by the first of these that holds:

1. *filtered*: a filter (of a condition or a dimension) sees a value and does not let it pass;
2. *unmatched*: a condition or a dimension takes nothing from the line;
3. *too long*: the value of a dimension is over `DIMENSION_BYTES`;
4. *counted*.

A missing measure keeps no line from being counted. Apart from tasks, a line is unmatched by its topic if it
is not of the topic's format. So for each task version and day of event time, and for the topic (`TOPIC`),
counted + filtered + unmatched + too_long are the lines with a time. Of the skipped ones (unmatched, too long)
a few samples are kept for people.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.runtime.arrays import Bools, Bytes, Ints

#: The most bytes of a dimension's value. Both layers must skip the same lines, on every day. And the values
#: of eight dimensions, the most that a task has, fit into a row key of HBase (32 KiB) with each byte escaped.
DIMENSION_BYTES = 1 << 10
#: What a value does to its line; a line has the flags of all its values.
LONG, ABSENT, FILTERED = 1, 2, 4
FLAGS = 8
#: In the place of a task version: the topic's format. Tasks are numbered from 1.
TOPIC = (0, 0)
UNMATCHED, TOO_LONG = "unmatched", "too_long"
#: Samples of a version, a day and a kind that are kept.
SAMPLES = 5
#: Skipped lines of a task and a kind that one pass looks at to find samples.
LOOKED_AT = 16
#: The most bytes of its line that a sample has.
SAMPLE_BYTES = 1024
NOTHING = "nothing was extracted"

COUNTS = ("counted", "filtered", UNMATCHED, TOO_LONG)
#: How many lines of a day a task version counted and skipped.
TALLIES = pa.schema(
    [
        ("day", pa.int64()),  # of event time, since the epoch
        ("task_id", pa.int32()),
        ("version", pa.int32()),
        *((name, pa.int64()) for name in COUNTS),
    ]
)
_KEYS = ["day", "task_id", "version"]
#: Samples of skipped lines.
SKIPPED = pa.schema(
    [
        *(TALLIES.field(name) for name in _KEYS),
        ("kind", pa.string()),  # unmatched, too_long
        ("reason", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("line_in_record", pa.int32()),
        ("bytes", pa.int64()),  # of the whole line
        ("line", pa.binary()),  # its beginning
    ]
)
#: Whose samples are complete: task id, version, kind, day.
Sampled = frozenset[tuple[int, int, str, int]]


@dataclass(frozen=True)
class TaskOutcome:
    """What a task did with the lines of a pass: `flags[d, f]` lines of day code d have the flags f."""

    flags: Ints
    absent: Ints  # the first unmatched lines
    long: Ints  # the first too long ones


def outcome(flags: Bytes, inside: Bools, days: Ints, count: int) -> TaskOutcome:
    """The outcome of lines, each with its flags, if it is inside the task's ranges, and its day's code."""
    found = np.bincount(days[inside] * FLAGS + flags[inside], minlength=count * FLAGS)
    unmatched = inside & (flags & (FILTERED | ABSENT) == ABSENT)
    long = inside & (flags == LONG)
    return TaskOutcome(
        found.reshape(count, FLAGS),
        np.flatnonzero(unmatched)[:LOOKED_AT],
        np.flatnonzero(long)[:LOOKED_AT],
    )


def tallies(found: Sequence[tuple[tuple[int, int], Ints]], days: Ints) -> pa.Table:
    """TALLIES of task versions; `found`: the `TaskOutcome.flags` of each; `days`: the day of each code."""
    if not found or not len(days):
        return TALLIES.empty_table()
    flags = np.stack([each for _, each in found]).reshape(-1, FLAGS)
    versions = np.array([version for version, _ in found], np.int32)
    columns = [
        np.tile(days, len(found)),
        *np.repeat(versions, len(days), axis=0).T,
        flags[:, 0],
        flags[:, FILTERED:].sum(axis=1),
        flags[:, ABSENT] + flags[:, ABSENT | LONG],
        flags[:, LONG],
    ]
    there = flags.sum(axis=1) > 0
    return pa.table([pa.array(column[there]) for column in columns], names=TALLIES.names).cast(TALLIES)


def summed(tables: Iterable[pa.Table]) -> pa.Table:
    """TALLIES added up, a row for each version and day."""
    whole = pa.concat_tables([TALLIES.empty_table(), *tables])
    grouped = whole.group_by(_KEYS, use_threads=False).aggregate([(name, "sum") for name in COUNTS])
    return grouped.rename_columns({f"{name}_sum": name for name in COUNTS}).select(TALLIES.names)


def first_samples(tables: Iterable[pa.Table]) -> pa.Table:
    """SKIPPED with at most `SAMPLES` of each version, day and kind: those with the lowest offsets."""
    whole = pa.concat_tables([SKIPPED.empty_table(), *tables])
    order = ("offset", "partition", "line_in_record")
    whole = whole.take(pc.sort_indices(whole, sort_keys=[(name, "ascending") for name in order]))
    kept, seen = [], dict[tuple[object, ...], int]()
    for row, key in enumerate(zip(*(whole[name].to_pylist() for name in (*_KEYS, "kind")), strict=True)):
        seen[key] = seen.get(key, 0) + 1
        if seen[key] <= SAMPLES:
            kept.append(row)
    return whole.take(pa.array(kept, pa.int64()))


class Reckoning:
    """Tallies and samples of several passes over lines, added up."""

    def __init__(self) -> None:
        self._tallies: list[pa.Table] = []
        self._samples = SKIPPED.empty_table()
        self.sampled: Sampled = frozenset()  # what the next pass need not sample

    def add(self, found: pa.Table, samples: pa.Table) -> None:
        """Add the TALLIES and the SKIPPED of a pass."""
        self._tallies = [summed([*self._tallies, found])]
        if samples.num_rows:
            self._samples = first_samples([self._samples, samples])
            self.sampled = full(self._samples)

    @property
    def tables(self) -> tuple[pa.Table, pa.Table]:
        """TALLIES and SKIPPED."""
        return summed(self._tallies), self._samples


def full(samples: pa.Table) -> Sampled:
    """The versions, kinds and days that have `SAMPLES` samples or more here."""
    names = ["task_id", "version", "kind", "day"]
    counted = samples.group_by(names, use_threads=False).aggregate([([], "count_all")])
    counted = counted.filter(pc.greater_equal(counted["count_all"], SAMPLES))
    return frozenset(zip(*(counted[name].to_pylist() for name in names), strict=True))


def too_long(dimension: str, limit: int) -> str:
    """Why a task skips a line whose value of a dimension is over the limit."""
    return f"value of dimension {dimension} is over {limit} bytes"
