"""The logs of topics on Kafka's disks: how large they are, who deletes from them, and deletion."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import TracebackType
from typing import Any

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType

from sluice.runtime.settings import Settings
from sluice.transmission import clients
from sluice.transmission.topics import REQUEST_MS

#: With these Kafka itself deletes nothing of a topic.
NEVER = {"retention.ms": "-1", "retention.bytes": "-1"}


class TopicLogs:
    """Over one connection; all methods raise KafkaError."""

    def __init__(self, settings: Settings) -> None:
        self._client = KafkaAdminClient(
            **clients.options(settings.kafka),
            client_id="sluice-topic-logs",
            request_timeout_ms=REQUEST_MS,
            bootstrap_timeout_ms=REQUEST_MS,
        )

    def topics(self) -> set[str]:
        """The names of all topics but Kafka's own."""
        return {name for name in self._client.list_topics() if not name.startswith("__")}

    def sizes(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """The bytes of each partition's log on the broker where it is largest."""
        return sizes_in(self._client.describe_log_dirs({topic: list(partitions)}), topic)

    def held(self, topics: Collection[str]) -> set[str]:
        """Those of these topics of which Kafka itself deletes nothing."""
        found = self._client.describe_configs([_resource(name, None) for name in topics]) if topics else {}
        own: Mapping[str, Mapping[str, Any]] = next(iter(found.values()), {})
        return {
            name
            for name, configs in own.items()
            if all(configs.get(key, {}).get("value") == value for key, value in NEVER.items())
        }

    def hold(self, topic: str) -> None:
        """Let Kafka itself delete nothing of the topic from now on."""
        self._alter(topic, AlterConfigOp.SET)

    def release(self, topic: str) -> None:
        """Let Kafka delete from the topic again, as it does from any other."""
        self._alter(topic, AlterConfigOp.DELETE)

    def delete(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete the records before these offsets; the disk is free once a whole segment is over."""
        self._client.delete_records({TopicPartition(topic, number): at for number, at in before.items()})

    def _alter(self, topic: str, how: AlterConfigOp) -> None:
        configs = {name: (how, value) for name, value in NEVER.items()}
        self._client.alter_configs([_resource(topic, configs)])

    def __enter__(self) -> TopicLogs:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()


def _resource(topic: str, configs: Mapping[str, Any] | None) -> ConfigResource:
    return ConfigResource(ConfigResourceType.TOPIC, topic, configs)


def sizes_in(brokers: Iterable[Mapping[str, Any]], topic: str) -> dict[int, int]:
    """The bytes of each partition of a topic, in Kafka's answer: the largest of its copies."""
    found: dict[int, int] = {}
    for broker in brokers:
        for folder in broker["log_dirs"]:
            for each in folder["topics"]:
                for part in each["partitions"] if each["name"] == topic else ():
                    number = part["partition_index"]
                    found[number] = max(found.get(number, 0), part["partition_size"])
    return found
