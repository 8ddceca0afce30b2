"""The records of a topic in a range of offsets, read by the process that counts them.

Spark's own Kafka source would have the JVM fetch each record, turn it into a row and send that to Python, and
would plan a query and ask Kafka for its partitions in each batch. Here a task gets a range of offsets and
reads it by itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import OffsetOutOfRangeError

from sluice.runtime.positions import PartitionLog
from sluice.runtime.sections import Kafka
from sluice.runtime.settings import Settings
from sluice.storage.tables.eras import LogMoved
from sluice.transmission.identity import moved_on, records
from sluice.transmission.mac import identity_key
from sluice.transmission.reading import reader

# Target size of an answer in bytes; a single larger record is returned whole.
FETCH_BYTES = 8 << 20
# A consumer asks for more before it is asked for it. At the log's end the broker holds that request for this
# long (Kafka's default is 500), and the next batch's first request waits behind it.
FETCH_WAIT_MS = 10
POLL_MS = 200
# A task that gets no record for this long, though Kafka has more, fails. Spark starts it again a few times.
PATIENCE_SECONDS = 30.0


#: A position by partition.
Position = Mapping[str, int]


class RecordsGone(RuntimeError):
    """Kafka does not have records that were to be counted."""

    def __init__(self, topic: str, wanted: Slice) -> None:
        super().__init__(
            f"topic {topic!r}, partition {wanted.partition}: offset {wanted.start} is not in Kafka any more. "
            "Its retention was shorter than the speed layer's lag; the next start goes on behind the gap"
        )


class NoRecords(TimeoutError):
    """Kafka does not send records that it has."""

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        super().__init__(
            f"topic {topic!r}, partition {partition}: Kafka sent nothing from offset {offset} on for "
            f"{PATIENCE_SECONDS:.0f} s; see `sluice status`"
        )


class Slice(NamedTuple):
    """The offsets [start, end) of a partition; the position of each is the offset plus `shift`.

    read_at: the log's newest era, and the epoch of its leader, when it was looked at. A record of a newer
    epoch may be another than the one that was meant.
    """

    partition: int
    start: int
    end: int
    shift: int = 0
    read_at: tuple[int, int] | None = None


@dataclass(frozen=True)
class SourcePart:
    """What one task reads: slices of a topic, one after the other; picklable.

    It yields lines (LINE_SCHEMA) with their positions; no batch ends inside a record. Raises RecordsGone,
    NoRecords, LogMoved, KafkaError.
    """

    kafka: Kafka
    topic: str
    slices: Sequence[Slice]
    key: bytes = field(repr=False)  # for the records' identities

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        consumer = _consumer(self.kafka)
        try:
            for each in self.slices:
                if _own.read_at.get((self.topic, each.partition), each.read_at) != each.read_at:
                    # It may have fetched ahead what the log does not have any more.
                    _own.consumers.pop(self.kafka).close()
                    _own.read_at.clear()
                    consumer = _consumer(self.kafka)
                _own.read_at[self.topic, each.partition] = each.read_at
                yield from self._read(consumer, each)
        except BaseException:  # who knows what it still waits for
            _own.consumers.pop(self.kafka).close()
            raise

    def _read(self, consumer: KafkaConsumer, wanted: Slice) -> Iterator[pa.RecordBatch]:
        at = TopicPartition(self.topic, wanted.partition)
        consumer.assign([at])
        consumer.seek(at, wanted.start)
        position, deadline = wanted.start, time.monotonic() + PATIENCE_SECONDS
        while position < wanted.end:
            try:
                polled = consumer.poll(timeout_ms=POLL_MS).get(at, [])
            except OffsetOutOfRangeError:
                raise RecordsGone(self.topic, wanted) from None
            if (
                wanted.read_at is not None
                and consumer._subscription.assignment[at].position.leader_epoch > wanted.read_at[1]
            ):
                raise LogMoved(self.topic, [wanted.partition])
            own = [one for one in polled if one.offset < wanted.end]
            for batch in records(wanted.partition, own, self.key):
                yield moved_on(batch, wanted.shift)
            # Not the newest record's offset: behind it there may be some that only Kafka itself reads.
            if (reached := consumer.position(at)) > position:
                position, deadline = reached, time.monotonic() + PATIENCE_SECONDS
            elif time.monotonic() > deadline:
                raise NoRecords(self.topic, wanted.partition, position)


@dataclass(frozen=True)
class TopicRange:
    """The records of a topic between two positions."""

    kafka: Kafka
    topic: str
    slices: Sequence[Slice]  # in the order of partitions, none empty
    key: bytes = field(repr=False)

    @classmethod
    def of(
        cls,
        settings: Settings,
        topic: str,
        start: Position,
        end: Position,
        logs: Mapping[int, PartitionLog],
        *,
        checked: bool = True,
    ) -> TopicRange:
        """A partition that is missing in `start` begins at 0.

        logs: all partitions' logs, as they are now. checked: whether reading fails where they are others by
        then.
        """
        own = {number: (log.newest.era, log.newest.epoch) for number, log in logs.items()} if checked else {}
        wanted = [
            Slice(int(name), piece.start, piece.end, piece.shift, own.get(int(name)))
            for name, to in end.items()
            if int(name) in logs  # a topic that was made again may have fewer partitions
            for piece in logs[int(name)].pieces(start.get(name, 0), to)
        ]
        return cls(settings.kafka, topic, sorted(wanted), identity_key(settings))

    def parts(self, most: int | None = None) -> list[SourcePart]:
        """The records in at most `most` parts of about equal numbers of records; None: one part a partition.

        Within a part they come in the order of their partitions and offsets.
        """
        number = len(self.slices) if most is None else min(most, len(self.slices))
        dealt: list[list[Slice]] = [[] for _ in range(number)]
        loads = [0] * number
        for each in sorted(self.slices, key=lambda one: one.start - one.end):
            least = loads.index(min(loads))
            dealt[least].append(each)
            loads[least] += each.end - each.start
        return [SourcePart(self.kafka, self.topic, sorted(own), self.key) for own in dealt]


class _Own(threading.local):
    """This thread's consumers by broker, kept from batch to batch."""

    def __init__(self) -> None:
        self.consumers: dict[Kafka, KafkaConsumer] = {}
        #: The era and epoch at which each partition was read last.
        self.read_at: dict[tuple[str, int], tuple[int, int] | None] = {}


_own = _Own()


def _consumer(kafka: Kafka) -> KafkaConsumer:
    if kafka not in _own.consumers:
        _own.consumers[kafka] = reader(
            kafka,
            client_id="sluice-speed-reader",
            # Where Kafka does not have what is asked for, the task must fail: never skip.
            auto_offset_reset="none",
            max_partition_fetch_bytes=FETCH_BYTES,
            fetch_max_bytes=FETCH_BYTES,
            fetch_max_wait_ms=FETCH_WAIT_MS,
        )
    return _own.consumers[kafka]
