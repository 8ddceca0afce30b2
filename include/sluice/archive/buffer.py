"""Lines of one partition that are not in a file yet."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa

from sluice.runtime.sections import Archive

#: Bytes of a file's lines before they are packed, about at most: a file is made in memory, and `sluice.lines`
#: reads it as a whole.
FILE_BYTES = 64 << 20


class Buffer:
    """The lines of the next file, in their order."""

    def __init__(self, limits: Archive) -> None:
        self._limits = limits
        self.batches: list[pa.RecordBatch] = []
        self.lines = 0
        self._bytes = 0
        self._since = 0.0

    def add(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Take as many of the lines (LINE_SCHEMA) as the file may still have; returns the rest.

        The batch has whole records, and a file never ends inside one: the last record that has a line in the
        file is in it to its end.
        """
        if not self.batches:
            self._since = time.monotonic()
        taken = batch.slice(0, self._cut(batch))
        self.batches.append(taken)
        self.lines += len(taken)
        self._bytes += taken.nbytes
        return batch.slice(len(taken))

    def _cut(self, batch: pa.RecordBatch) -> int:
        """How many of the lines this file takes."""
        room = self._limits.max_lines - self.lines
        if len(batch) <= room:
            return len(batch)
        offsets = batch.column("offset").to_numpy()
        return int(np.searchsorted(offsets, offsets[room - 1], side="right"))

    def due(self) -> bool:
        """Whether the file is full or old enough to be written."""
        limits = self._limits
        return self.lines > 0 and (
            self.lines >= limits.max_lines or self._bytes >= FILE_BYTES or self.seconds_left() <= 0
        )

    def seconds_left(self) -> float:
        """How long until the file is old enough to be written; infinity while it is empty."""
        if not self.lines:
            return float("inf")
        return self._since + self._limits.max_age_seconds - time.monotonic()
