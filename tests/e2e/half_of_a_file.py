"""Sends lines of two kinds to a topic: those of a file, and those of no file."""

from __future__ import annotations

from collections.abc import Iterable

from kafka import KafkaProducer

from sluice.runtime.settings import Settings
from sluice.transmission.mac import identity_key
from sluice_lab.bench.headers import to_headers


def send(settings: Settings, topic: str, lines: Iterable[bytes]) -> None:
    """Every other line as one of a file, the others as those of a producer without identities."""
    producer = KafkaProducer(bootstrap_servers=settings.kafka.bootstrap, acks="all", linger_ms=5)
    key, at = identity_key(settings), 0
    for number, text in enumerate(lines):
        headers = to_headers("web7", "shop.log", at, text, key) if number % 2 else []
        producer.send(topic, text, headers=headers, partition=number % 2)
        at += len(text) + 1 if number % 2 else 0
    producer.close()
