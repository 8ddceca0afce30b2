from __future__ import annotations

import re

import pytest

from sluice.collection import inventory
from sluice.collection.agent import Agent
from sluice.collection.render import MEMORY_BYTES, Rendered, render
from sluice.runtime.settings import Settings
from tests.collection.conftest import Write

EDGE = """\
agent.sources.files.fileHeader = true
agent.sources.files.fileHeaderKey = src_file
agent.sources.files.byteOffsetHeader = true
agent.sources.files.batchSize = 100
"""
FAILOVER = """\
agent.sinkgroups = collectors
agent.sinkgroups.collectors.sinks = to_0 to_1
agent.sinkgroups.collectors.processor.type = failover
agent.sinkgroups.collectors.processor.priority.to_0 = 20
agent.sinkgroups.collectors.processor.priority.to_1 = 10
"""
KAFKA = """\
agent.sinks.kafka.header.host = host
agent.sinks.kafka.header.src_file = src_file
agent.sinks.kafka.header.byteoffset = src_offset
agent.sinks.kafka.header.mac = mac
agent.sinks.kafka.kafka.producer.acks = all
agent.sinks.kafka.kafka.producer.enable.idempotence = true
"""


@pytest.fixture
def rendered(settings: Settings, inventory_text: Write) -> dict[str, Rendered]:
    del inventory_text
    return render(inventory.load(settings), settings)


def properties(rendered: Rendered) -> str:
    return rendered.files["agent.properties"]


def test_collectors_come_first(rendered: dict[str, Rendered]) -> None:
    assert list(rendered) == ["collector1", "collector2", "web1", "web2"]


def test_an_edge_gives_identity_and_fails_over(rendered: dict[str, Rendered], settings: Settings) -> None:
    text = properties(rendered["web1"])
    assert EDGE in text
    assert FAILOVER in text
    path = f"{settings.home}/frontends/web1/access\\\\.[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}\\\\.log"
    assert f"agent.sources.files.filegroups.f1 = {path}\n" in text
    assert "agent.sinks.to_0.port = 29100\n" in text
    assert "agent.sinks.to_1.port = 29101\n" in text
    assert "agent.sinks.to_0.port = 29101\n" in properties(rendered["web2"])


def test_the_channel_is_what_the_inventory_says(rendered: dict[str, Rendered]) -> None:
    assert "agent.channels.buffer.type = org.apache.flume.channel.BlockChannel\n" in properties(
        rendered["web1"]
    )
    assert "agent.channels.buffer.type = file\n" in properties(rendered["web2"])
    assert "agent.channels.buffer.type = file\n" in properties(rendered["collector1"])


def test_a_collector_hands_identity_to_kafka(rendered: dict[str, Rendered]) -> None:
    text = properties(rendered["collector1"])
    assert KAFKA in text
    assert "agent.sinks.kafka.kafka.topic = h5_logs\n" in text
    assert "agent.sinks.kafka.kafka.producer.max.request.size = 16793600\n" in text
    assert "agent.sinks.kafka.kafka.producer.partitioner.class = sluice.flume.StretchPartitioner\n" in text


def test_channels_are_bounded_by_bytes_and_disk(rendered: dict[str, Rendered]) -> None:
    assert f"agent.channels.buffer.byteCapacity = {MEMORY_BYTES}\n" in properties(rendered["web1"])
    for name in ("web2", "collector1"):
        assert f"agent.channels.buffer.minimumRequiredSpace = {1 << 30}\n" in properties(rendered[name])


def test_nothing_listens_beyond_the_bind_address(rendered: dict[str, Rendered]) -> None:
    for each in rendered.values():
        assert "0.0.0.0" not in properties(each)  # noqa: S104
    assert "agent.sources.edges.bind = 127.0.0.1\n" in properties(rendered["collector1"])


def test_on_one_machine_nothing_speaks_tls_or_logs_in(rendered: dict[str, Rendered]) -> None:
    for each in rendered.values():
        assert not each.tls
        assert not re.search("tls|ssl|sasl|addresses|hold = .*collector", properties(each), re.IGNORECASE)
    assert "agent.sinks.to_0.hostname = 127.0.0.1\n" in properties(rendered["web1"])


def test_an_agent_survives_json(rendered: dict[str, Rendered]) -> None:
    for each in rendered.values():
        assert Agent.from_json(each.files["agent.json"]) == each.agent
