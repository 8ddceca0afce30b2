"""Consumers give bounded polls, and nobody makes another kind of consumer."""

from __future__ import annotations

import ast
import secrets

import pytest
from kafka import KafkaProducer, TopicPartition

from sluice.runtime.settings import ROOT, Settings
from sluice.transmission.identity import held
from sluice.transmission.reading import POLL_BYTES, reader
from sluice.transmission.topics import Topics


@pytest.mark.slow
def test_every_consumer_is_made_in_one_place() -> None:
    makers = set()
    product = ("include/sluice/**/*.py", "include/sluice_hosts/**/*.py", "jobs/*.py", "plugins/**/*.py")
    for path in (path for pattern in product for path in ROOT.glob(pattern)):
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(getattr(node, "func", None), "id", None) or getattr(
                getattr(node, "func", None), "attr", ""
            )
            if isinstance(node, ast.Call) and name == "KafkaConsumer":
                makers.add(str(path.relative_to(ROOT)))
    assert makers == {"include/sluice/transmission/reading.py"}


@pytest.mark.stack
def test_a_poll_has_a_bound_in_bytes_however_many_records_were_packed_together(stack: Settings) -> None:
    name, value = f"h4_{secrets.token_hex(5)}", bytes(6 << 20)
    with Topics(stack) as topics:
        topics.create(name, partitions=1)
    producer = KafkaProducer(
        bootstrap_servers=stack.kafka.bootstrap, compression_type="gzip", max_request_size=60 << 20
    )
    for _ in range(9):
        producer.send(name, value, headers=[("host", bytes(1 << 20))]).get(30)
    producer.close()
    consumer = reader(stack.kafka, enable_auto_commit=False, max_poll_records=10_000)
    at = TopicPartition(name, 0)
    consumer.assign([at])
    consumer.seek_to_beginning(at)
    offsets = []
    while len(offsets) < 9:
        found = consumer.poll(timeout_ms=5_000).get(at, [])
        assert sum(map(held, found)) < POLL_BYTES + (7 << 20)
        offsets += [each.offset for each in found]
        assert consumer.position(at) == offsets[-1] + 1
    consumer.close()
    assert offsets == list(range(9))
