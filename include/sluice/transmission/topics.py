"""The platform's Kafka topics, made with the settings that the layers need.

A topic that is deleted and made again under the same name is another topic: its offsets start at 0 again.
Only the id that the broker gave it (KIP-516) tells the two apart, so offsets are stored together with the id.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType

from kafka import KafkaAdminClient, OffsetSpec, TopicPartition
from kafka.errors import NoError, TopicAlreadyExistsError, UnknownTopicOrPartitionError, for_code

from sluice.runtime.settings import Settings
from sluice.transmission import clients
from sluice.transmission.log_ends import LogEnd, ends_of_epochs, log_ends

REQUEST_MS = 10_000
GONE_POLL_SECONDS = 0.1


class TopicMissing(LookupError):
    """Kafka has no topic of that name now."""


@dataclass(frozen=True)
class KafkaTopic:
    """A topic as the broker describes it; `id` is its UUID in canonical form."""

    name: str
    id: str
    partitions: tuple[int, ...]


@dataclass(frozen=True)
class Span:
    """Offsets of a log: the first, the first since a given time, and the end."""

    start: int
    then: int
    end: int


class Topics:
    """Administers topics over one connection; may be shared between threads."""

    def __init__(self, settings: Settings) -> None:
        self._kafka = settings.kafka
        self._lock = threading.Lock()
        self._client: KafkaAdminClient | None = None

    def create(self, name: str, *, partitions: int | None = None) -> KafkaTopic:
        """Make the topic unless it exists, and describe it.

        A line's arrival is stamped by the broker's clock (LogAppendTime), because retention counts from
        arrival. A line of up to 16 MiB is accepted, because otherwise one long line would block Flume's sink
        for ever.
        """
        configs = {
            "message.timestamp.type": "LogAppendTime",
            "max.message.bytes": str(self._kafka.max_message_bytes),
        }
        request = {
            name: {
                "num_partitions": partitions or self._kafka.partitions,
                "replication_factor": self._kafka.replication,
                "configs": configs,
            }
        }
        with self._lock:
            try:
                self._admin().create_topics(request, wait_for_metadata=True)
            except TopicAlreadyExistsError:
                self._admin().wait_for_topics([name])
        return self.describe(name)

    def describe(self, name: str) -> KafkaTopic:
        """The topic's present id and partitions.

        Raises TopicMissing, or KafkaError if no broker answers.
        """
        with self._lock:
            found = self._admin().describe_topics([name])
        for topic in found:
            problem = for_code(topic["error_code"])
            if problem not in {NoError, UnknownTopicOrPartitionError}:
                raise problem(f"topic {name!r} cannot be described")
            if topic["name"] == name and problem is NoError:
                numbers = sorted(partition["partition_index"] for partition in topic["partitions"])
                return KafkaTopic(name, str(topic["topic_id"]), tuple(numbers))
        raise TopicMissing(
            f"topic {name!r} does not exist in Kafka at {self._kafka.bootstrap}: create it, or start the "
            "collection, which creates it"
        )

    def delete(self, name: str) -> None:
        """Delete the topic with its records, if it is there. Raises KafkaError if no broker answers."""
        with self._lock:
            try:
                self._admin().delete_topics([name])
            except UnknownTopicOrPartitionError:
                return
        deadline = time.monotonic() + REQUEST_MS / 1000
        while time.monotonic() < deadline:  # the broker has promised it, and does it a moment later
            try:
                self.describe(name)
            except TopicMissing:
                return
            time.sleep(GONE_POLL_SECONDS)

    def members(self, group: str) -> frozenset[str]:
        """The ids of a consumer group's members. Raises KafkaError if no broker answers."""
        with self._lock:
            found = self._admin().describe_groups([group])[group]
        return frozenset(member["member_id"] for member in found["members"])

    def owners(self, group: str) -> dict[int, str]:
        """The member that has each partition of a group with one topic. Raises KafkaError.

        A member is shown as its client's id, which need not be unique.
        """
        with self._lock:
            found = self._admin().describe_groups([group])[group]
        return {
            number: member["client_id"]
            for member in found["members"]
            for topic in (member["member_assignment"] or {}).get("assigned_partitions", ())
            for number in topic["partitions"]
        }

    def spans(self, name: str, since: int) -> dict[int, Span]:
        """Each partition's first offset, first offset since the time (else the end), and end.

        since: ms since the epoch. Raises TopicMissing, or KafkaError if no broker answers.
        """
        places = [TopicPartition(name, number) for number in self.describe(name).partitions]
        with self._lock:
            starts, then, ends = (
                self._admin().list_partition_offsets(dict.fromkeys(places, spec))
                for spec in (OffsetSpec.EARLIEST, since, OffsetSpec.LATEST)
            )
        return {
            at.partition: Span(
                starts[at].offset,
                then[at].offset if then[at].offset >= 0 else ends[at].offset,
                ends[at].offset,
            )
            for at in places
        }

    def ends(self, name: str) -> dict[int, int]:
        """The offset after the last one of each partition. Raises TopicMissing, KafkaError."""
        places = [TopicPartition(name, number) for number in self.describe(name).partitions]
        with self._lock:
            found = self._admin().list_partition_offsets(dict.fromkeys(places, OffsetSpec.LATEST))
        return {at.partition: int(found[at].offset) for at in places}

    def log_ends(self, name: str, partitions: Iterable[int]) -> dict[int, LogEnd]:
        """Where these partitions' logs end, and at which epoch. Raises KafkaError."""
        with self._lock:
            return log_ends(self._admin(), name, partitions, REQUEST_MS)

    def ends_of_epochs(self, name: str, epochs: Mapping[int, int]) -> dict[int, int]:
        """Where the logs ended for an epoch of each of these partitions. Raises KafkaError."""
        with self._lock:
            return ends_of_epochs(self._admin(), name, epochs)

    def bounds(self, name: str, partition: int) -> tuple[int, int]:
        """The first offset that the partition's log still has, and the offset after its last one."""
        at = TopicPartition(name, partition)
        with self._lock:
            start = self._admin().list_partition_offsets({at: OffsetSpec.EARLIEST})[at].offset
            end = self._admin().list_partition_offsets({at: OffsetSpec.LATEST})[at].offset
        return int(start), int(end)

    def _admin(self) -> KafkaAdminClient:
        if self._client is None:
            self._client = KafkaAdminClient(
                **clients.options(self._kafka),
                client_id="sluice-topics",
                request_timeout_ms=REQUEST_MS,
                bootstrap_timeout_ms=REQUEST_MS,
            )
        return self._client

    def close(self) -> None:
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def __enter__(self) -> Topics:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
