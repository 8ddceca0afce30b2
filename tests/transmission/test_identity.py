from __future__ import annotations

from sluice.transmission.identity import records
from sluice.transmission.line_schema import FORGED, IDENTITY, LINE_SCHEMA
from sluice_lab.bench.headers import to_headers
from tests.identities import KEY
from tests.messages import Message


def message(offset: int, value: bytes = b"line") -> Message:
    return Message(offset, value, to_headers("web1", "access.2015-05-17.log", 4711, value, KEY))


def test_headers_become_the_identity_of_the_line() -> None:
    (batch,) = records(3, [message(8, b"one"), message(9, b"two")], KEY)
    assert batch.schema == LINE_SCHEMA
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
        "unreadable": None,
        "last_offset": None,
    }


def test_no_record_gets_the_headers_of_its_neighbour() -> None:
    twice = message(2)
    twice.headers = [*to_headers("web2", "f", 0, b"line", KEY), *twice.headers]
    (batch,) = records(0, [message(1), twice, Message(3, b"line", [])], KEY)
    assert batch.column("host").to_pylist() == ["web1", "web2", None]


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
