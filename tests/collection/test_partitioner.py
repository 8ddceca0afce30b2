"""Into which of Kafka's partitions blocks and other records go."""

from __future__ import annotations

import base64
import json
import subprocess
from collections import Counter
from collections.abc import Sequence

import pytest
from kafka.partitioner.default import murmur2

from sluice.collection.render import PARTITIONER
from sluice.runtime.jvm import java
from sluice.transmission.record_writer import LineRecord

pytestmark = pytest.mark.slow

FILE = "web1\0frontends/web1/caf\u00e9.2026-01-05.log"


def partitions(classes: str, keys: Sequence[bytes | None], count: int = 16) -> list[int]:
    texts = [key if key is None else base64.b64encode(key).decode() for key in keys]
    command = [java(), "-XX:TieredStopAtLevel=1", "-cp", classes, "Partitions"]
    done = subprocess.run(
        [*command, str(count), PARTITIONER, json.dumps(texts)], capture_output=True, check=True, text=True
    )
    return list(map(int, json.loads(done.stdout.splitlines()[-1])))


def stretches(file: str, numbers: Sequence[int]) -> list[bytes]:
    return [f"{file}\0{number}".encode() for number in numbers]


@pytest.mark.parametrize("count", [1, 4, 16, 7])
def test_a_files_stretches_go_round_robin(classes: str, count: int) -> None:
    first = murmur2(FILE.encode())
    first -= (first & (1 << 31)) << 1  # signed, as in Java
    numbers = [0, 1, 2, 9, 10, 99, 100, 4_000_000_000, 2**53]
    assert partitions(classes, stretches(FILE, numbers), count) == [(first + n) % count for n in numbers]


def test_a_record_of_the_platform_s_own_goes_where_the_edges_would_send_it(classes: str) -> None:
    """`sluice.transmission.record_writer` replays lines: copies must meet in one partition."""
    places = [(f"web{n}", f"caf\u00e9.{n}.log", n * 300_000) for n in range(50)]
    records = [LineRecord(*place, b"") for place in places]
    keys = [record.key for record in records]
    for count in (1, 7, 16):
        assert partitions(classes, keys, count) == [record.partition(count) for record in records]


def test_a_busy_file_loads_all_partitions_evenly(classes: str) -> None:
    loads = Counter(partitions(classes, stretches(FILE, range(160))))
    assert set(loads.values()) == {10}


def test_files_begin_in_different_partitions(classes: str) -> None:
    names = [f"web{n}\0frontends/web{n}/access.log" for n in range(100)]
    assert len(set(partitions(classes, [key for name in names for key in stretches(name, [0])]))) == 16


def test_other_records_go_where_kafka_sends_them(classes: str) -> None:
    """A line's first characters, the key of records of version 1, may look like anything."""
    keys = [
        b"10.0.3.17", b"", b"\0", b"\0\0", b"\0\0x", b"web1\0file", b"web1\0file\0", b"web1\0file\0-1",
        b"web1\0file\x001x", b"web1\0file\x001\0", b"web1\0fi\0le\x001", b"web1\x001", b"\xff\xfe",
        b"web1\0file\0" + b"9" * 19,
    ]  # fmt: skip
    assert partitions(classes, keys) == [(murmur2(key) & 0x7FFFFFFF) % 16 for key in keys]


def test_records_without_a_key_go_to_all_partitions_in_turn(classes: str) -> None:
    assert sorted(partitions(classes, [None] * 16)) == list(range(16))
