"""Writes records to a topic, each with a proved identity, as edges and collectors do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

from kafka import KafkaProducer
from kafka.partitioner.default import murmur2

from sluice.runtime.settings import Settings
from sluice.transmission import clients
from sluice.transmission.line_schema import HOST, MAC, SRC_FILE, SRC_OFFSET
from sluice.transmission.mac import identity_key, mac

#: Bytes of a file whose blocks go to one partition, as `Blocks.java` has it.
STRETCH_BYTES = 256 << 10
#: How long a broker may take to acknowledge a record; the client tries again meanwhile.
ACKNOWLEDGED_SECONDS = 120.0
_SIGN = 1 << 31


@dataclass(frozen=True)
class LineRecord:
    """A record: the identity of its first line, and its bytes: a line, or several joined by newlines."""

    host: str
    src_file: str
    src_offset: int
    line: bytes

    @property
    def key(self) -> bytes:
        """Its key in Kafka: host, file and the number of the stretch."""
        return b"%b\0%d" % (self._name, self.src_offset // STRETCH_BYTES)

    def headers(self, key: bytes) -> list[tuple[str, bytes]]:
        """Its identity, and the proof of it under the instance's key."""
        host, src_file, offset = self.host.encode(), self.src_file.encode(), b"%d" % self.src_offset
        proof = mac(key, host, src_file, offset, self.line)
        return [(HOST, host), (SRC_FILE, src_file), (SRC_OFFSET, offset), (MAC, proof)]

    def partition(self, count: int) -> int:
        """Its partition of so many: that of `StretchPartitioner.java`, so that copies meet in one."""
        first = murmur2(self._name)
        first -= (first & _SIGN) << 1  # signed, as in Java
        return int((first + self.src_offset // STRETCH_BYTES) % count)

    @property
    def _name(self) -> bytes:
        return f"{self.host}\0{self.src_file}".encode()


class RecordWriter:
    """A producer of one topic with so many partitions."""

    def __init__(self, settings: Settings, topic: str, partitions: int) -> None:
        self._topic, self._partitions = topic, partitions
        self._key = identity_key(settings)
        self._producer = KafkaProducer(
            **clients.options(settings.kafka),
            client_id="sluice-record-writer",
            acks="all",
            compression_type="lz4",
            # The broker decides, by the packed size; this is of what is not packed yet.
            max_request_size=2 * settings.kafka.max_message_bytes,
        )

    def write(self, records: Sequence[LineRecord]) -> None:
        """Write them all; returns when every one is safe. Raises KafkaError: some may then be written."""
        sent = [
            self._producer.send(
                self._topic,
                record.line,
                key=record.key,
                headers=record.headers(self._key),
                partition=record.partition(self._partitions),
            )
            for record in records
        ]
        for each in sent:
            each.get(ACKNOWLEDGED_SECONDS)

    def close(self) -> None:
        self._producer.close()

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
