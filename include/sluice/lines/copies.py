"""Of each line the copy that came first, as the layers choose it.

Of a line's copies the one counts that arrived first, then the one with the smallest offset
(`batch.day_job.unique`). Which bytes of a file were seen is kept as the speed layer keeps it, in a byte
ledger: lines that follow each other cost one interval.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.lines.candidates import CANDIDATES
from sluice.speed.ledger import ByteLedger
from sluice.transmission.line_schema import HOST, LINE_IN_RECORD, SRC_FILE, SRC_OFFSET

#: The order in which copies came.
ARRIVED = ("arrival", "offset", LINE_IN_RECORD, "partition")


class FirstCopies:
    """Takes lines in any order, and gives each once, as soon as no older copy of it can come."""

    def __init__(self) -> None:
        self._seen = ByteLedger()
        self._waiting = CANDIDATES.empty_table()

    @property
    def waiting(self) -> int:
        return int(self._waiting.num_rows)

    def add(self, lines: pa.RecordBatch) -> None:
        """Take more CANDIDATES."""
        if len(lines):
            self._waiting = pa.concat_tables([self._waiting, pa.Table.from_batches([lines])])

    def settled(self, until: int | None = None) -> pa.Table:
        """First copies in the order of arrival, if only lines that arrive at `until` (ms) or later come.

        Without `until` no more lines come.
        """
        rows = self._waiting
        if until is not None:
            early = pc.less(rows.column("arrival"), until)
            rows, self._waiting = rows.filter(early), rows.filter(pc.invert(early))
        else:
            self._waiting = CANDIDATES.empty_table()
        if not rows.num_rows:
            return rows
        rows = rows.take(pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in ARRIVED]))
        rows = rows.combine_chunks()
        host, file, start = (rows.column(name).chunk(0) for name in (HOST, SRC_FILE, SRC_OFFSET))
        new = self._seen.claim(host, file, start, np.asarray(rows.column("end")))
        return rows if new.all() else rows.filter(pa.array(new))
