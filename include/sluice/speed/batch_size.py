"""How many records the next batch of a topic has.

A record is a block of lines: one line of a quiet front-end, or 64 KiB of a busy one. So a batch is limited in
bytes, and the size of the records to come is judged by those of the batch before.
"""

from __future__ import annotations

from collections.abc import Mapping

#: Most bytes of a block of lines, unless it is a single line.
LARGEST_RECORD = 64 << 10
#: If records turn out to be small, the next batch may have GROWTH times the records of the one before.
GROWTH = 4
#: A batch that failed is tried with half as many records, down to this part of the limit.
SMALLEST = 1 / 1024


class BatchSize:
    """The size of one topic's batches; used by one thread."""

    def __init__(self, limit: int) -> None:
        self._limit = limit  # bytes
        self._share = 1.0  # of the limit, less after failures
        self._record = float(LARGEST_RECORD)  # bytes
        self._before = max(1, limit // LARGEST_RECORD)  # records of the batch before

    def share(self, waiting: Mapping[str, int]) -> dict[str, int]:
        """How many of each partition's waiting records the next batch has.

        Partitions get room in proportion to what waits in them, and each that has records gets at least one.
        """
        total, room = sum(waiting.values()), self._records()
        if room >= total:
            return dict(waiting)
        return {name: min(count, max(1, count * room // total)) for name, count in waiting.items()}

    def counted(self, records: int, size: int) -> None:
        """Learn from a batch of `records` records, whose lines had `size` bytes together."""
        self._share = min(1.0, self._share * 2)
        self._before = max(records, 1)
        if records:
            self._record = max(1.0, size / records)

    def failed(self) -> None:
        """Make the next batch smaller: this one may have been too large for the driver or an executor."""
        self._share = max(SMALLEST, self._share / 2)

    def _records(self) -> int:
        fitting = self._limit / self._record
        safe = self._limit / LARGEST_RECORD  # however large they are
        return max(1, int(self._share * min(fitting, max(safe, GROWTH * self._before))))
