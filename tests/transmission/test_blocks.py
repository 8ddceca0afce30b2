"""A record's lines: as plain Python splits them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.transmission import blocks, identity
from sluice.transmission.identity import header_number, header_text, records
from sluice.transmission.line_schema import LINE_SCHEMA
from sluice.transmission.mac import mac
from sluice_lab.bench.headers import Headers
from tests.examples import examples
from tests.identities import KEY
from tests.messages import ARRIVAL, Message, block, rows

NAMES = ("host", "src_file", "src_offset")
bodies = st.one_of(
    st.none(),
    st.binary(max_size=6),
    st.lists(st.sampled_from([b"", b"a", b"a line", b"\r", b"caf\xe9", b"\0"]), max_size=9).map(b"\n".join),
)
values = {
    "host": st.sampled_from([b"web1", b"w\xff", b"we\0b"]),
    "src_file": st.sampled_from([b"a.log", b"b.log", b"x" * 1_200]),
    "src_offset": st.sampled_from([b"0", b"17", b"-1", b"", b"1" * 18, b"1" * 19]),
    "mac": st.sampled_from([b"", b"A" * 24]),
}
header = st.sampled_from([*values, "other"]).flatmap(
    lambda name: st.tuples(st.just(name), values.get(name, st.just(b"x")))
)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """A genuine record, or one whose headers are missing, doubled, forged or odd."""
    body = draw(bodies)
    headers: Headers = [(name, draw(values[name])) for name in NAMES]
    proof = mac(KEY, *(value for _, value in headers), body or b"")
    kind = draw(st.sampled_from(["genuine", "genuine", "another body", "odd"]))
    if kind == "another body":
        body = (body or b"") + b"\nmore"
    if kind == "odd":
        return Message(0, body, draw(st.lists(header, max_size=6)))
    return Message(0, body, [*headers, ("mac", proof)])


def by_hand(message: Message) -> list[dict[str, Any]]:
    """The record's lines in plain Python."""
    first = dict(reversed(message.headers))
    host, file = (header_text(pa.array([first.get(name)], pa.binary()))[0].as_py() for name in NAMES[:2])
    (number,) = header_number(pa.array([first.get("src_offset")], pa.binary())).to_pylist()
    body, claimed = message.value or b"", None not in (host, file, number)
    genuine = (
        claimed
        and b"\0" not in first["host"] + first["src_file"]
        and first.get("mac") == mac(KEY, *(first[name] for name in NAMES), body)
    )
    if claimed and not genuine:
        host = file = number = None
    place = {"partition": 3, "offset": message.offset, "arrival": ARRIVAL}
    told = place | {
        "host": host,
        "src_file": file,
        "forged": claimed and not genuine,
        "unreadable": None,
        "last_offset": None,
    }
    found, begin = [], 0
    for n, line in enumerate(body.split(b"\n") if genuine else [body]):
        at = None if number is None else number + begin
        found.append(told | {"src_offset": at, "line": line, "line_in_record": n})
        begin += len(line) + 1
    return found


@pytest.mark.slow
@examples(150)
@given(st.lists(messages(), max_size=8), st.integers(1, 12))
def test_any_record_is_split_as_plain_python_does(some: list[Message], most: int) -> None:
    for offset, message in enumerate(some):
        message.offset = offset
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BATCH_LINES", most)
        patch.setattr(identity, "DECODED_BYTES", most)
        patch.setattr(blocks, "CACHED_BYTES", most)
        expected = [row for message in some for row in by_hand(message)]
        batches = list(records(3, some, KEY))
    assert rows(iter(batches)) == expected
    for batch in batches:
        assert batch.schema == LINE_SCHEMA
        assert len(batch) <= most or len(set(batch.column("offset").to_pylist())) == 1


def test_each_line_of_a_block_has_its_own_place_in_the_file() -> None:
    (batch,) = records(0, [block(7, "a.log", 100, [b"one", b"", b"caf\xc3\xa9\r"])], KEY)
    found = batch.select(["offset", "line_in_record", "src_offset", "line"]).to_pylist()
    assert [tuple(row.values()) for row in found] == [
        (7, 0, 100, b"one"),
        (7, 1, 104, b""),
        (7, 2, 105, b"caf\xc3\xa9\r"),
    ]


@pytest.mark.slow
def test_a_line_of_16_mib_is_a_line_and_very_many_empty_lines_come_in_portions() -> None:
    long = block(0, "a.log", 0, [b"x" * (16 << 20)])
    empty = [block(n, "b.log", n << 18, [b""] * 60_000) for n in range(1, 5)]
    batches = list(records(0, [long, *empty], KEY))
    assert sum(map(len, batches)) == 1 + 4 * 60_000
    assert max(map(len, batches)) <= blocks.BATCH_LINES
    assert batches[0].column("line")[0].as_py() == long.value
    last = batches[-1].slice(len(batches[-1]) - 1).to_pylist()[0]
    assert (last["offset"], last["line_in_record"], last["src_offset"]) == (4, 59_999, (4 << 18) + 59_999)


def test_a_part_of_a_batch_is_split_like_a_batch_of_its_own() -> None:
    """Arrow's slices have an offset into the bytes of the whole."""
    some = [block(n, "a.log", n * 100, [b"a" * n, b"b", b""]) for n in range(6)]
    whole, part = (identity._whole(0, own, KEY) for own in (some, some[2:5]))
    assert rows(blocks.split(whole.slice(2, 3))) == rows(blocks.split(part))
