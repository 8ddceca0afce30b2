"""Records of one line: what both layers read of them, and where Kafka keeps them."""

from __future__ import annotations

import secrets

import pytest

from sluice.runtime.settings import Settings
from sluice.transmission.line_schema import FORGED, HOST, SRC_FILE, SRC_OFFSET
from sluice.transmission.record_writer import STRETCH_BYTES, LineRecord, RecordWriter
from sluice.transmission.sample import sample
from sluice.transmission.topics import Topics
from tests.identities import KEY
from tests.messages import Message, decoded


def test_both_layers_believe_its_identity() -> None:
    record = LineRecord("web1", "caf\u00e9.log", 12, b"a line")
    (row,) = decoded(0, [Message(0, record.line, record.headers(KEY))]).to_pylist()
    assert (row[HOST], row[SRC_FILE], row[SRC_OFFSET], row[FORGED]) == ("web1", "caf\u00e9.log", 12, False)
    assert decoded(0, [Message(0, b"another", record.headers(KEY))]).column(FORGED).to_pylist() == [True]


def test_its_key_is_that_of_its_stretch() -> None:
    assert LineRecord("web1", "a.log", STRETCH_BYTES - 1, b"").key == b"web1\0a.log\x000"
    assert LineRecord("web1", "a.log", 3 * STRETCH_BYTES, b"").key == b"web1\0a.log\x003"


def test_stretches_go_to_the_partitions_in_turn() -> None:
    """`tests/collection/test_partitioner.py` holds them against Flume's."""
    found = [LineRecord("web1", "a.log", n * STRETCH_BYTES, b"").partition(4) for n in range(5)]
    assert sorted(found[:4]) == [0, 1, 2, 3]
    assert found[4] == found[0]


@pytest.mark.stack
def test_what_is_written_is_in_kafka(stack: Settings) -> None:
    name = f"written_{secrets.token_hex(5)}"
    with Topics(stack) as topics:
        topics.create(name, partitions=3)
        lines = [b"line %d" % number for number in range(50)] + [b"x" * (2 << 20)]
        with RecordWriter(stack, name, 3) as writer:
            writer.write(
                [LineRecord("web1", "a.log", n * STRETCH_BYTES, line) for n, line in enumerate(lines)]
            )
        assert sorted(sample(stack, name, 100)) == sorted(lines)
        topics.delete(name)
