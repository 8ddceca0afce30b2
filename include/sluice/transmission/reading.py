"""Consumers that no record can stop or exhaust: the one place that makes them.

They are kafka-python's, whose fetcher gets other code for two things: the bytes of an answer are decoded by
`decoding`, and a poll is limited in bytes (POLL_BYTES), not only in records. Sixty records of 16 MiB each
would be one poll else.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from kafka import KafkaConsumer
from kafka.consumer.fetcher import Fetcher

from sluice.runtime.sections import Kafka
from sluice.transmission import clients
from sluice.transmission.decoding import Batches, Record
from sluice.transmission.identity import held

#: Target size of a poll in bytes; a single larger record is returned whole.
POLL_BYTES = 8 << 20
#: What no layer needs of Kafka: it keeps their positions nowhere, and nobody reads the client's figures.
NOTHING_ELSE = {
    "group_id": None,
    "enable_auto_commit": False,
    "allow_auto_create_topics": False,
    "metrics_enabled": False,
    # kafka-python 3.0.12: a partition that was paused while its fetch was under way can fall out of an
    # incremental session and is then never fetched again (seen at offset 81,867 of 98,575).
    "enable_incremental_fetch_sessions": False,
}


def reader(kafka: Kafka, **options: Any) -> KafkaConsumer:
    """A consumer with these of kafka-python's options, and NOTHING_ELSE; it polls `Record`s."""
    consumer = KafkaConsumer(**{**clients.options(kafka), **NOTHING_ELSE, **options})
    fetcher = consumer._fetcher
    fetcher.__class__ = BoundedFetcher
    fetcher.PartitionRecords = partial(PartitionRecords, limit=kafka.unpacked_bytes)
    return consumer


class PartitionRecords(Fetcher.PartitionRecords):  # type: ignore[misc]
    """The records of one partition in an answer; `room` says how many bytes the next `take` may give."""

    def __init__(self, *given: Any, limit: int, **options: Any) -> None:
        self._limit = limit
        self.room, self.taken = POLL_BYTES, 0
        super().__init__(*given, **options)

    def take(self, n: int | None = None) -> list[Record]:
        """The next records, at most `n`."""
        found: list[Record] = []
        while self.record_iterator is not None and (n is None or len(found) < n) and self.taken < self.room:
            record = next(self.record_iterator, None)
            if record is None:
                break
            found.append(record)
            self.taken += held(record)
        return found

    def _unpack_records(self, tp: Any, records: Any, *deserializers: Any) -> Iterator[Record]:
        batches = Batches(records._buffer, self.fetch_offset, self._limit)
        for record in batches:
            self.next_fetch_offset, self.leader_epoch = batches.next, batches.epoch
            self.records_read += 1
            self.bytes_read += len(record.value or b"")
            yield record
        self.next_fetch_offset = batches.next
        self.drain()


class BoundedFetcher(Fetcher):  # type: ignore[misc]
    """kafka-python's fetcher, which gives POLL_BYTES at a time."""

    _room = POLL_BYTES

    def fetched_records(self, max_records: int | None = None, update_offsets: bool = True) -> Any:
        self._room = POLL_BYTES
        return super().fetched_records(max_records, update_offsets)

    def _append(self, drained: Any, part: Any, max_records: int, update_offsets: bool) -> int:
        """How many records were appended; `max_records`, which ends the poll, if there is no more room."""
        if part and self._room > 0:
            part.room, part.taken = self._room, 0
            appended = int(super()._append(drained, part, max_records, update_offsets))
            self._room -= part.taken
            return appended if self._room > 0 else max_records
        return max_records if part else 0
