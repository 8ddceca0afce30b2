"""A line's identity in another topic: always the same, and never that of another line."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sluice.letters.replayed_lines import (
    BLOCK_BYTES,
    MOST_BYTES,
    ends,
    of_no_file,
    records,
    refusals,
    runs,
    under_identity,
)
from sluice.runtime.positions import position_at
from sluice.speed.ledger import ByteLedger
from sluice.transmission.line_identity import KAFKA_HOST, REPLAYED_HOST, identify
from sluice.transmission.line_schema import FORGED, LINE_SCHEMA, UNREADABLE
from sluice.transmission.record_writer import STRETCH_BYTES
from tests.messages import KEY, Message, decoded

POSITIONS = st.builds(position_at, st.integers(0, 500_000), st.integers(0, (1 << 44) - 1))


def row(offset: int, line: bytes = b"x", **changed: Any) -> dict[str, Any]:
    """A line of no file, unless it is changed."""
    return {"partition": 0, "offset": offset, "arrival": 0, "line": line, **changed}


def of_file(start: int, line: bytes, file: str = "a.log") -> dict[str, Any]:
    return row(start, line, host="web1", src_file=file, src_offset=start)


def lines(*rows: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(list(rows), LINE_SCHEMA)


def sent(*rows: dict[str, Any]) -> list[Any]:
    return records(under_identity(lines(*rows), "logs"))


def test_a_line_of_a_file_keeps_its_identity() -> None:
    (found,) = sent(of_file(300, b"line"))
    assert (found.host, found.src_file, found.src_offset, found.line) == ("web1", "a.log", 300, b"line")


def test_a_line_of_no_file_has_one_that_follows_from_its_place() -> None:
    first, second = sent(row((1 << 33) + 5), row(7, host=KAFKA_HOST, src_file="logs/0", src_offset=7))
    assert (first.host, first.src_file, first.src_offset) == (REPLAYED_HOST, "logs/0/1", 5 << 26)
    assert (second.host, second.src_file, second.src_offset) == (REPLAYED_HOST, "logs/0/0", 7 << 26)


@given(POSITIONS, st.integers(-3, 3))
def test_lines_of_no_file_never_overlap(position: int, step: int) -> None:
    """Not even the longest ones, of positions in a row or beyond an era."""
    places = sorted({position, max(0, position + step), position + (1 << 33)})
    found = sent(*(row(each, b"") for each in places))
    by_file = sorted((each.src_file, each.src_offset) for each in found)
    assert len(set(by_file)) == len(places)
    for (file, begin), (other, after) in pairwise(by_file):
        assert file != other or begin + MOST_BYTES + 1 <= after
    assert all(each.host == REPLAYED_HOST and len(str(each.src_offset)) <= 18 for each in found)


def test_a_ledger_takes_neighbours_for_different_lines() -> None:
    found = under_identity(lines(*(row(n, b"y" * 1_000) for n in range(5))), "logs")
    columns = [found.column(name) for name in ("host", "src_file", "src_offset")]
    ledger = ByteLedger()
    assert ledger.claim(*columns, ends(found)).all()
    assert not ledger.claim(*columns, ends(found)).any()


def test_what_cannot_be_sent_is_refused() -> None:
    given = lines(
        of_file(0, b"line"),
        of_file(9, b"x" * (MOST_BYTES + 1)),
        row(1, b"one line"),
        row(2, b"line", **{FORGED: True}),
        row(3, b"\0", **{UNREADABLE: "undecodable: x"}),
        {**of_file(5, b"----"), UNREADABLE: "redacted: by erasure 1, of 2015-05-17"},
        row(4, b"two\nlines"),
        row(5, bytes(MOST_BYTES + 1)),
    )
    found = refusals(given).to_pylist()
    assert found[:3] == [None] * 3
    wanted = ("forged", "unreadable", "erased", "of no file, with a line feed", "of no file, and over")
    for why, begin in zip(found[3:], wanted, strict=True):
        assert why.startswith(begin)
    assert of_no_file(given).tolist() == [False, False, True, True, True, False, True, True]


SIZES = st.lists(st.sampled_from([0, 1, 90, 20_000, 65_535, 70_000, 300_000]), max_size=30)


@given(SIZES, st.integers(0, 3 * STRETCH_BYTES), st.sets(st.integers(0, 29)))
def test_blocks_are_what_edges_send(sizes: Sequence[int], begin: int, missing: set[int]) -> None:
    """At most 64 KiB or one line, within a stretch, and the lines that come of them are those given."""
    starts = begin + np.cumsum([0, *(size + 1 for size in sizes)])
    rows = [of_file(int(start), b"x" * size) for start, size in zip(starts, sizes, strict=False)]
    given = lines(*(each for n, each in enumerate(rows) if n not in missing))
    found = records(given)
    for each in found:
        assert b"\n" not in each.line or len(each.line) <= BLOCK_BYTES
        last = each.src_offset + len(each.line)
        assert b"\n" not in each.line or each.src_offset // STRETCH_BYTES == last // STRETCH_BYTES
    batch = decoded(0, [Message(n, each.line, each.headers(KEY)) for n, each in enumerate(found)])
    again, after = identify(batch, "shop")
    for name in ("host", "src_file", "src_offset", "line"):
        assert again.column(name).to_pylist() == given.column(name).to_pylist()
    assert after.tolist() == ends(given).tolist()
    assert len(runs(given)) <= len(found)


def test_lines_of_two_files_are_no_block() -> None:
    found = sent(of_file(0, b"one"), of_file(4, b"two"), of_file(8, b"three", "b.log"))
    assert [each.line for each in found] == [b"one\ntwo", b"three"]
    assert records(lines()) == []
