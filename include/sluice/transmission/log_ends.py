"""Where the partitions of a topic end, and at which epoch of their leaders (KIP-101, KIP-320)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kafka import KafkaAdminClient, KafkaConsumer, OffsetSpec, TopicPartition
from kafka.errors import KafkaError, LeaderNotAvailableError, for_code
from kafka.protocol.consumer import OffsetForLeaderEpochRequest
from kafka.structs import OffsetAndTimestamp

_Topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
_ANY = -1  # epoch of the leader, and replica


class LogEnd(NamedTuple):
    """The offset after a log's last record, and the epoch of its newest leader."""

    offset: int
    epoch: int


def log_ends(
    asked: KafkaConsumer | KafkaAdminClient, topic: str, partitions: Iterable[int], timeout_ms: int
) -> dict[int, LogEnd]:
    """Raises KafkaError."""
    wanted = {TopicPartition(topic, number): OffsetSpec.LATEST for number in partitions}
    if not wanted:
        return {}
    found: Mapping[TopicPartition, OffsetAndTimestamp] = (
        asked.list_partition_offsets(wanted, timeout_ms=timeout_ms)
        if isinstance(asked, KafkaAdminClient)
        else asked._fetcher.offsets_by_times(wanted, timeout_ms)
    )
    if missing := sorted(at.partition for at in wanted if found.get(at) is None):
        raise LeaderNotAvailableError(f"{topic}: nobody says where partitions {missing} end")
    return {
        at.partition: LogEnd(end.offset, _ANY if end.leader_epoch is None else end.leader_epoch)
        for at, end in found.items()
    }


def ends_of_epochs(admin: KafkaAdminClient, topic: str, epochs: Mapping[int, int]) -> dict[int, int]:
    """Where the logs of these partitions ended for an epoch: no record beyond that is of it, or of an older.

    That is the log's own end if the epoch is its newest, and 0 if it knows none as old or as new as that.
    Raises KafkaError.
    """
    if not epochs:
        return {}
    found: dict[int, int] = admin._manager.run(_ends_of_epochs, admin, topic, epochs)
    return found


async def _ends_of_epochs(admin: Any, topic: str, epochs: Mapping[int, int]) -> dict[int, int]:
    places = {TopicPartition(topic, number) for number in epochs}
    found: dict[int, int] = {}
    for leader, own in (await admin._async_get_leader_for_partitions(places)).items():
        partitions = [
            _Topic.OffsetForLeaderPartition(
                partition=at.partition, current_leader_epoch=_ANY, leader_epoch=epochs[at.partition]
            )
            for at in own
        ]
        request = OffsetForLeaderEpochRequest(replica_id=_ANY, topics=[(topic, partitions)])
        answer = await admin._manager.send(request, node_id=leader)
        for said in (each for one in answer.topics for each in one.partitions):
            if said.error_code:
                raise for_code(said.error_code)(f"{topic}/{said.partition}: the end of epoch {epochs}")
            found[said.partition] = max(0, int(said.end_offset))
    if missing := epochs.keys() - found.keys():
        raise KafkaError(f"{topic}: no broker says where the epochs of partitions {sorted(missing)} ended")
    return found
