from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from sluice.transmission import lines
from sluice.transmission.identity import Headers, records
from sluice.transmission.records import RECORDS
from tests.identities import to_headers


@dataclass
class Message:
    """The part of a record that kafka-python hands over."""

    offset: int
    value: bytes | None = b"line"
    headers: Headers = field(default_factory=lambda: to_headers("web1", "access.2015-05-17.log", 4711))
    timestamp: int = 1_700_000_000_000


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
    batch = records(3, [Message(8, b"one"), Message(9, b"two")])
    assert batch.schema == RECORDS
    assert batch.to_pylist()[1] == {
        "partition": 3,
        "offset": 9,
        "arrival": 1_700_000_000_000,
        "host": "web1",
        "src_file": "access.2015-05-17.log",
        "src_offset": 4711,
        "line": b"two",
    }


@pytest.mark.parametrize("odd", ODD)
def test_odd_headers_mean_the_same_offline_as_online(odd: Headers) -> None:
    messages = [Message(1), Message(2, None, odd), Message(3)]
    pairs = pa.struct([("key", pa.string()), ("value", pa.binary())])
    from_spark = pa.RecordBatch.from_arrays(
        [
            pa.array([0] * 3, pa.int32()),
            pa.array([m.offset for m in messages], pa.int64()),
            pa.array([m.timestamp for m in messages], pa.int64()),
            pa.array([[{"key": k, "value": v} for k, v in m.headers] for m in messages], pa.list_(pairs)),
            pa.array([m.value for m in messages], pa.binary()),
        ],
        names=list(lines.KAFKA_COLUMNS),
    )
    assert records(0, messages).to_pylist() == lines.decode(from_spark).to_pylist()


def test_no_messages_make_an_empty_batch() -> None:
    assert len(records(0, [])) == 0
