"""The lines of one day, batch by batch: from the archive's records to the rows of `logs`.

These functions run inside Spark's Python workers (`mapInArrow`), before and after the step that removes
doubles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.batch.barred import REASON, among
from sluice.engine.access_log import FIELDS, fields
from sluice.engine.parse import dead_reason, event_time, refused
from sluice.engine.plan import EnginePlan
from sluice.runtime.arrays import Ints
from sluice.runtime.days import DAY_MS, begin_ms
from sluice.runtime.sections import Limits
from sluice.tasks.topic_spec import TopicSpec
from sluice.transmission.line_identity import identify
from sluice.transmission.line_schema import LINE_SCHEMA
from sluice.transmission.redacted import with_days

#: A line of the day with its identity and its time.
DAY_LINES = pa.schema([*LINE_SCHEMA, pa.field("event_ms", pa.int64(), nullable=False)])
#: The same without doubles, with the reason why no task counts it (null: none) and the fields of an access
#: log.
LOG_LINES = pa.schema([*DAY_LINES, pa.field("copies", pa.int64()), pa.field("reason", pa.string()), *FIELDS])


@dataclass(frozen=True)
class DayOf:
    """A topic's day of event time (UTC)."""

    topic: str
    day: date

    @property
    def start_ms(self) -> int:
        return begin_ms(self.day)


def of_day(batches: Iterator[pa.RecordBatch], which: DayOf, plan: EnginePlan) -> Iterator[pa.RecordBatch]:
    """Archived lines (LINE_SCHEMA) to DAY_LINES: those with a time in the day, each with its identity."""
    for batch in batches:
        yield within(batch, which.topic, plan.topic, which.start_ms, which.start_ms + DAY_MS)[0]


def within(
    batch: pa.RecordBatch, topic: str, spec: TopicSpec, since: int, until: int
) -> tuple[pa.RecordBatch, Ints]:
    """LINE_SCHEMA to DAY_LINES: those with a time in [since, until), ms, each with its identity.

    Also where each of them ends in its file. A redacted line is one of its day, so that a copy that came
    later is a double of it; no task counts it (`reasons`).
    """
    records, ends = identify(batch.select(LINE_SCHEMA.names).cast(LINE_SCHEMA), topic)
    ms, valid = with_days(records, *event_time(records.column("line"), spec))
    inside = valid & (ms >= since) & (ms < until)
    whole = pa.RecordBatch.from_arrays([*records.columns, pa.array(ms)], schema=DAY_LINES)
    return (whole, ends) if inside.all() else (whole.filter(pa.array(inside)), ends[inside])


def to_logs(batches: Iterator[pa.RecordBatch], limits: Limits, places: pa.Table) -> Iterator[pa.RecordBatch]:
    """Unique DAY_LINES (with `copies`) to LOG_LINES; see `reasons`."""
    for batch in batches:
        lines = batch.column("line")
        parsed = fields(lines)
        columns = [
            *(batch.column(name) for name in (*DAY_LINES.names, "copies")),
            reasons(batch, limits, places),
            *(parsed[name] for name in FIELDS.names),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=LOG_LINES)


def reasons(batch: pa.RecordBatch, limits: Limits, places: pa.Table) -> pa.Array:
    """Why no task counts a line; null where nothing prevents it. `places`: PLACES that are barred."""
    lines = batch.column("line")
    everything = np.ones(len(lines), bool)  # each has an event time, or it would not be of the day
    found = dead_reason(lines, everything, limits, refused(batch))
    gone = among(batch, places)
    return pc.if_else(pa.array(gone), pa.scalar(REASON), found) if gone.any() else found
