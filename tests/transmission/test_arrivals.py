"""When blocks came to Kafka, and the longest time without one."""

from __future__ import annotations

import secrets
import time

import pytest
from kafka import KafkaProducer

from sluice.runtime.settings import Settings
from sluice.transmission.arrivals import arrivals, longest_pause
from sluice.transmission.line_schema import HOST
from sluice.transmission.topics import Topics


@pytest.mark.parametrize(
    ("times", "pause"),
    [
        ([1_000, 2_000, 4_500, 5_000], 2.5),
        ([0, 3_000, 4_000, 9_000], 5.0),  # it ends after the last moment
        ([500, 3_900, 4_100], 3.4),  # it began before the first
        ([], 3.0),
        ([7_000], 6.0),
    ],
)
def test_the_longest_pause_counts_as_a_whole(times: list[int], pause: float) -> None:
    assert longest_pause(times, 1_000, 4_000) == pause


@pytest.mark.stack
def test_the_blocks_of_each_front_end_that_came_since(stack: Settings) -> None:
    topic = f"arrivals_{secrets.token_hex(4)}"
    with Topics(stack) as topics:
        topics.create(topic)
        assert arrivals(stack, topic, 0) == {}
        producer = KafkaProducer(bootstrap_servers=stack.kafka.bootstrap)

        def send(host: str) -> int:
            return int(producer.send(topic, b"line", headers=[(HOST, host.encode())]).get(30).timestamp)

        send("early")
        time.sleep(0.01)  # the broker's clock counts milliseconds
        sent: dict[str, list[int]] = {"web1": [], "web2": []}
        for host in ("web1", "web2", "web1"):
            sent[host].append(send(host))
        producer.close()
        assert arrivals(stack, topic, sent["web1"][0]) == sent
