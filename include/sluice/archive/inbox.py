"""What the consumer hands over to one partition's writer, in order."""

from __future__ import annotations

import queue
import time
from collections.abc import Sequence

from sluice.transmission.identity import Message
from sluice.transmission.identity import held as size

# When WAITING_BYTES wait for the writer, the consumer pauses the partition: a slow HDFS holds up the fetching
# and does not fill the memory.
WAITING_BYTES = 16 << 20
# What a polled record takes beside its value.
MESSAGE_BYTES = 1_200
# Records that come within TOGETHER_SECONDS, up to TOGETHER_BYTES, are taken together: to decode some costs
# about 1 ms beside 0.2 us for a line.
TOGETHER_SECONDS, TOGETHER_BYTES = 0.5, 1 << 20

# An epoch and the messages fetched for it.
Item = tuple[int, Sequence[Message]]
OUT_OF_RANGE: Item = (-1, ())
MOVED: Item = (-2, ())


class Inbox:
    """A queue of records with their epoch; one thread puts, another takes."""

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[Item | None] = queue.SimpleQueue()
        self._first: Item | None = None  # of another epoch than those that were taken last
        self._ended = False
        self._given = self._taken = 0  # bytes; each is written by one thread

    def put(self, epoch: int, messages: Sequence[Message]) -> None:
        self._given += held(messages)
        self._items.put((epoch, messages))

    def put_out_of_range(self) -> None:
        """Say that Kafka does not have the records that were asked for."""
        self._items.put(OUT_OF_RANGE)

    def put_moved(self) -> None:
        """Say that the log's leader changed: what was fetched may not be what the log has now."""
        self._items.put(MOVED)

    def end(self) -> None:
        """Nothing more is worth waiting for."""
        self._items.put(None)

    def full(self) -> bool:
        return self._given - self._taken >= WAITING_BYTES

    def take(self, wait: float, together: float = TOGETHER_SECONDS) -> Item | None:
        """OUT_OF_RANGE, MOVED, or records of one epoch: what comes within `together` seconds of the first.

        None if nothing comes within `wait` seconds, or before the end.
        """
        item, self._first = self._first or self._next(wait), None
        if item is None or item in (OUT_OF_RANGE, MOVED):
            return item
        epoch, messages = item[0], list(item[1])
        size, until = held(messages), time.monotonic() + together
        while size < TOGETHER_BYTES and (more := self._next(until - time.monotonic())):
            if more[0] != epoch:
                self._first = more
                break
            messages += more[1]
            size += held(more[1])
        self._taken += size
        return epoch, messages

    def _next(self, wait: float) -> Item | None:
        try:
            item = self._items.get(timeout=0.0 if self._ended else max(0.0, wait))
        except queue.Empty:
            return None
        self._ended = self._ended or item is None
        return item


def held(messages: Sequence[Message]) -> int:
    """About how many bytes of memory the messages take."""
    return sum(map(size, messages)) + MESSAGE_BYTES * len(messages)
