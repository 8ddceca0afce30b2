from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest

from sluice.transmission import lines
from sluice.transmission.identity import Headers, records
from sluice.transmission.records import FORGED, IDENTITY, RECORDS
from tests.identities import KEY, signed, to_headers


@dataclass
class Message:
    """The part of a record that kafka-python hands over."""

    offset: int
    value: bytes | None
    headers: Headers
    timestamp: int = 1_700_000_000_000


def message(offset: int, value: bytes = b"line") -> Message:
    return Message(offset, value, to_headers("web1", "access.2015-05-17.log", 4711, value, KEY))


ODD: list[Headers] = [
    [],
    [("host", b"web1")],
    [("src_offset", b"7"), ("src_file", b"f"), ("host", b"web1")],
    [("host", b"web1"), ("src_file", b"f"), ("src_offset", b"-7")],
    [("host", b"web1"), ("src_file", b"f"), ("src_offset", b"1" * 19)],
    [("host", b"web1"), ("src_file", b"f"), ("src_offset", b"1" * 18)],
    [("host", b"web1"), ("src_file", b"f"), ("src_offset", b"")],
    [("host", b"web1"), ("src_file", b"\xffcaf\xc3\xa9\x00"), ("src_offset", b"7")],
    [("host", b"web1"), ("host", b"web2"), ("src_file", b"f"), ("src_offset", b"7")],
    [("other", b"x"), ("host", b"web1"), ("src_file", b"f"), ("src_offset", b"7")],
]


def test_headers_become_the_identity_of_the_line() -> None:
    (batch,) = records(3, [message(8, b"one"), message(9, b"two")], KEY)
    assert batch.schema == RECORDS
    assert batch.to_pylist()[1] == {
        "partition": 3,
        "offset": 9,
        "arrival": 1_700_000_000_000,
        "host": "web1",
        "src_file": "access.2015-05-17.log",
        "src_offset": 4711,
        "line": b"two",
        "forged": False,
        "line_in_record": 0,
    }


PROVED = [signed(odd, b"", KEY) for odd in ODD if {"host", "src_file", "src_offset"} <= set(dict(odd))]


@pytest.mark.parametrize("odd", [*ODD, *PROVED])
def test_odd_headers_mean_the_same_offline_as_online(odd: Headers) -> None:
    same_offline_as_online([message(1), Message(2, None, odd), message(3)])


def test_no_record_gets_the_headers_of_its_neighbour() -> None:
    twice = message(2)
    twice.headers = [*to_headers("web2", "f", 0, b"line", KEY), *twice.headers]
    same_offline_as_online([message(1), twice, Message(3, b"line", [])])


def rows(batches: Iterator[pa.RecordBatch]) -> list[dict[str, object]]:
    return [row for batch in batches for row in batch.to_pylist()]


def same_offline_as_online(messages: list[Message]) -> None:
    pairs = pa.struct([("key", pa.string()), ("value", pa.binary())])
    from_spark = pa.RecordBatch.from_arrays(
        [
            pa.array([0] * len(messages), pa.int32()),
            pa.array([m.offset for m in messages], pa.int64()),
            pa.array([m.timestamp for m in messages], pa.int64()),
            pa.array([[{"key": k, "value": v} for k, v in m.headers] for m in messages], pa.list_(pairs)),
            pa.array([m.value for m in messages], pa.binary()),
        ],
        names=list(lines.KAFKA_COLUMNS),
    )
    offline, online = records(0, messages, KEY), lines.decode(from_spark, KEY)
    assert rows(offline) == rows(online)


def test_no_messages_make_no_batch() -> None:
    assert list(records(0, [], KEY)) == []


def test_a_forged_identity_is_lost_and_noted_and_others_are_not() -> None:
    stranger = Message(8, b"other", [("host", b"web1"), ("src_offset", b"7")])
    forged = Message(9, b"other", message(9).headers)
    (batch,) = records(0, [message(7), stranger, forged], KEY)
    found = batch.select([*IDENTITY, FORGED]).to_pylist()
    assert [tuple(each.values()) for each in found] == [
        ("web1", "access.2015-05-17.log", 4711, False),
        ("web1", None, 7, False),
        (None, None, None, True),
    ]
