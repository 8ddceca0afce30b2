"""A letter's identity in another topic: always the same, and never that of another line."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sluice.letters.replayed_record import MOST_BYTES, of_no_file, record, refusal
from sluice.runtime.positions import position_at
from sluice.speed.ledger import ByteLedger
from sluice.transmission.line_identity import KAFKA_HOST, REPLAYED_HOST
from tests.letters.made import letter

POSITIONS = st.builds(position_at, st.integers(0, 500_000), st.integers(0, (1 << 44) - 1))


def of_kafka(position: int, line: bytes = b"x"):  # type: ignore[no-untyped-def]
    place = {"host": KAFKA_HOST, "src_file": "logs/0", "src_offset": position}
    return letter(position, line, **place)


def test_a_line_of_a_file_keeps_its_identity() -> None:
    found = record(letter(3, b"line"), b"line")
    assert (found.host, found.src_file, found.src_offset, found.line) == ("web1", "a.log", 300, b"line")


@given(POSITIONS, st.integers(-3, 3))
def test_lines_of_no_file_never_overlap(position: int, step: int) -> None:
    """Not even the longest ones, of positions in a row or beyond an era."""
    places = sorted({position, max(0, position + step), position + (1 << 33)})
    records = [record(of_kafka(each), b"") for each in places]
    by_file = sorted((each.src_file, each.src_offset) for each in records)
    assert len(set(by_file)) == len(places)
    for (file, begin), (other, after) in pairwise(by_file):
        assert file != other or begin + MOST_BYTES + 1 <= after
    assert all(each.host == REPLAYED_HOST and len(str(each.src_offset)) <= 18 for each in records)


def test_a_ledger_takes_neighbours_for_different_lines() -> None:
    line = b"y" * 1_000
    records = [record(of_kafka(n), line) for n in range(5)]
    columns = [pa.array([getattr(each, name) for each in records]) for name in ("host", "src_file")]
    starts = np.array([each.src_offset for each in records])
    ledger = ByteLedger()
    assert ledger.claim(*columns, starts, starts + len(line) + 1).all()
    assert not ledger.claim(*columns, starts, starts + len(line) + 1).any()


def test_what_cannot_be_sent_is_refused() -> None:
    assert refusal(letter(), b"line") == ""
    assert refusal(letter(reason="forged"), b"line").startswith("forged")
    assert refusal(letter(unreadable="undecodable: x"), None).startswith("unreadable")
    assert "earlier release" in refusal(letter(reason="dimension over 1024 bytes: path"), b"line")
    assert "whole line" in refusal(letter(), None)
    assert refusal(letter(), b"x" * (MOST_BYTES + 1)) == ""
    assert of_no_file(of_kafka(1))
    assert "line feed" in refusal(of_kafka(1), b"two\nlines")
    assert "bytes" in refusal(of_kafka(1), bytes(MOST_BYTES + 1))
    assert refusal(of_kafka(1), b"one line") == ""
