from __future__ import annotations

import numpy as np
import pyarrow as pa

from sluice.transmission.identity import LONGEST
from sluice.transmission.line_identity import identify
from sluice.transmission.line_schema import IDENTITY, LINE_SCHEMA
from sluice_lab.bench.headers import Headers, signed
from tests.identities import KEY
from tests.messages import Message, decoded


def kafka(headers: list[Headers | None], lines: list[bytes | None]) -> pa.RecordBatch:
    """The records; whole identities are proved."""
    proved = [
        signed(h, line or b"", KEY) if h and {*IDENTITY} <= set(dict(h)) else h
        for h, line in zip(headers, lines, strict=True)
    ]
    made = zip(lines, proved, strict=True)
    return decoded(3, [Message(100 + n, value, found or []) for n, (value, found) in enumerate(made)])


def whole(host: bytes, src_file: bytes, src_offset: bytes) -> Headers:
    return [("host", host), ("src_file", src_file), ("src_offset", src_offset)]


def identities(records: pa.RecordBatch) -> list[tuple[object, ...]]:
    return [(r["host"], r["src_file"], r["src_offset"]) for r in records.to_pylist()]


def test_identity_comes_from_the_headers_and_a_line_ends_after_its_newline() -> None:
    batch = kafka([whole(b"web1", b"/a.log", b"0"), whole(b"web1", b"/a.log", b"4")], [b"abc", b""])
    records, ends = identify(batch, "logs")
    assert records.schema == LINE_SCHEMA
    assert identities(records) == [("web1", "/a.log", 0), ("web1", "/a.log", 4)]
    np.testing.assert_array_equal(ends, [4, 5])


def test_a_record_without_identity_is_known_by_its_place_in_kafka() -> None:
    batch = kafka(
        [
            [],
            None,
            whole(b"web1", b"/a.log", b"7")[:2],
            whole(b"web1", b"/a.log", b"-1"),
            whole(b"web1", b"/a.log", b"7"),
        ],
        [b"a", None, b"bb", b"ccc", b"dddd"],
    )
    lines = batch
    assert lines.column("line").to_pylist() == [b"a", b"", b"bb", b"ccc", b"dddd"]
    records, ends = identify(lines, "logs")
    assert identities(records) == [
        ("kafka", "logs/3", 100),
        ("kafka", "logs/3", 101),
        ("kafka", "logs/3", 102),
        ("kafka", "logs/3", 103),
        ("web1", "/a.log", 7),
    ]
    np.testing.assert_array_equal(ends, [101, 102, 103, 104, 12])


def test_other_headers_doubled_headers_and_bytes_that_are_no_text() -> None:
    odd = [("key", b"k"), *whole(b"w\xff", b"/a.log", b"12"), ("host", b"later")]
    lines = kafka([odd, whole(b"web1", b"/a.log", b"999999999999999999")], [b"x", b"y"])
    assert identities(lines) == [("w\\xff", "/a.log", 12), ("web1", "/a.log", 999_999_999_999_999_999)]


def test_a_name_too_long_for_the_ledger_stays_distinct() -> None:
    names = [b"/" + b"x" * 5000 + end for end in (b"1", b"2")] + ["é".encode() * 600]
    found = kafka([whole(name, name, b"0") for name in names], [b"a", b"b", b"c"])
    for column in ("host", "src_file"):
        shown = found.column(column).to_pylist()
        assert len(set(shown)) == 3
        assert all(len(text.encode()) <= LONGEST for text in shown)
    assert shown[0].startswith("/xxx")


def test_an_empty_batch() -> None:
    records, ends = identify(kafka([], []), "logs")
    assert len(records) == len(ends) == 0
