"""A redacted line: what the archive keeps of a line that was erased.

Its place in Kafka, its identity, its arrival and its length stay. So offsets, the bytes of front-ends' files
and all sums still hold, and a copy that comes later is a double of it. Each of its bytes becomes FILLER.
`unreadable` names the erasure and the day (UTC) that the line was of: nothing else of its contents is left.
Both layers refuse it, as they refuse a record that cannot be read, and neither makes it a dead letter.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.runtime.arrays import Bools, Ints
from sluice.runtime.days import DAY_MS
from sluice.transmission.line_schema import UNREADABLE

#: How `unreadable` begins: the reason for which no task counts the line.
REDACTED = "redacted"
#: No format finds a time in a line of these: each needs digits.
FILLER = b"-"
_DAY_CHARACTERS = len("2015-05-17")
_OF = ", of "


def redact(lines: pa.Table, which: Bools, erasure: int, event_ms: Ints, timed: Bools) -> pa.Table:
    """The table with `line` and UNREADABLE of these rows replaced.

    event_ms, timed: when each of its lines happened, and whether it says so. Raises KeyError where the table
    lacks one of the two columns.
    """
    mask = pa.array(which)
    lengths = pc.binary_length(lines.column("line").filter(mask))
    filled = pc.binary_repeat(pa.scalar(FILLER), lengths).combine_chunks()
    said = np.full(int(which.sum()), f"{REDACTED}: by erasure {erasure}", object)
    days = (event_ms[which] // DAY_MS).astype("datetime64[D]").astype(str)
    said = np.where(timed[which], said + _OF + days.astype(object), said)
    for name, values in (("line", filled), (UNREADABLE, pa.array(said, pa.string()))):
        old = lines.column(name).combine_chunks()
        at = lines.schema.get_field_index(name)
        lines = lines.set_column(at, lines.field(name), pc.replace_with_mask(old, mask, values))
    return lines


def are_redacted(lines: pa.RecordBatch | pa.Table) -> Bools:
    """Which of these rows (with UNREADABLE) are redacted."""
    said = lines.column(UNREADABLE)
    if said.null_count == len(said):
        return np.zeros(len(said), bool)
    found: Bools = pc.fill_null(pc.starts_with(said, f"{REDACTED}:"), False).to_numpy(zero_copy_only=False)
    return found


def with_days(lines: pa.RecordBatch | pa.Table, event_ms: Ints, timed: Bools) -> tuple[Ints, Bools]:
    """The event times of lines, where a redacted one has the beginning of the day that it was of."""
    rows = np.flatnonzero(are_redacted(lines))
    if not len(rows):
        return event_ms, timed
    said = lines.column(UNREADABLE).take(pa.array(rows))
    dated = np.asarray(pc.match_substring(said, _OF))
    days = pc.utf8_slice_codeunits(said, -_DAY_CHARACTERS).filter(pa.array(dated)).to_pylist()
    event_ms, timed = event_ms.copy(), timed.copy()
    timed[rows] = dated
    event_ms[rows[dated]] = np.array(days, "datetime64[D]").astype(np.int64) * DAY_MS
    return event_ms, timed
