"""Records of one partition that are not in a file yet."""

from __future__ import annotations

import time

import pyarrow as pa

from sluice.runtime.settings import Archive


class Buffer:
    """The records of the next file, in their order."""

    def __init__(self, limits: Archive) -> None:
        self._limits = limits
        self.batches: list[pa.RecordBatch] = []
        self.records = 0
        self._bytes = 0
        self._since = 0.0

    def add(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Take as many of the records (RECORDS) as the file may still have; returns the rest."""
        room = self._limits.max_records - self.records
        if not self.batches:
            self._since = time.monotonic()
        taken = batch.slice(0, room)
        self.batches.append(taken)
        self.records += len(taken)
        self._bytes += taken.nbytes
        return batch.slice(room)

    def due(self) -> bool:
        """Whether the file is full or old enough to be written."""
        limits = self._limits
        return self.records > 0 and (
            self.records >= limits.max_records or self._bytes >= limits.max_bytes or self.seconds_left() <= 0
        )

    def seconds_left(self) -> float:
        """How long until the file is old enough to be written; infinity while it is empty."""
        if not self.records:
            return float("inf")
        return self._since + self._limits.max_age_seconds - time.monotonic()
