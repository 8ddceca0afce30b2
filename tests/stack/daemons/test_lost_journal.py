"""Only a piece of the journal that has no whole transaction is set aside."""

from __future__ import annotations

import time
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.runtime.middle_damage import MiddleDamage
from sluice.runtime.settings import Settings
from sluice.stack.daemons.lost_journal import ASIDE, _first_whole, empty_piece, set_aside_empty_journal
from tests.cuts.damage import dice
from tests.examples import examples

PIECE = "edits_inprogress_0000000000000000267"
HEADER = b"\xff\xff\xff\xbd\x00\x00\x00\x00"


def entry(transaction: int, body: bytes = b"") -> bytes:
    """A transaction, as a namenode writes it."""
    text = b"\x18" + (12 + len(body)).to_bytes(4, "big") + transaction.to_bytes(8, "big") + body
    return text + zlib.crc32(text).to_bytes(4, "big")


def entries(number: int) -> list[bytes]:
    return [entry(267 + each, dice(each).randbytes(each * 7 % 90)) for each in range(number)]


@pytest.fixture
def current(tmp_path: Path) -> Path:
    made = tmp_path / "data" / "namenode" / "current"
    made.mkdir(parents=True)
    (made / "seen_txid").write_text("267\n")
    (made / "edits_inprogress_0000000000000000001").write_bytes(b"")  # an older one, that nobody asks for
    (made / PIECE).write_bytes(HEADER + entry(267) + b"\xff" * 1000)
    return made


def test_a_piece_with_a_transaction_is_the_namenode_s_own_matter(current: Path, tmp_path: Path) -> None:
    set_aside_empty_journal(Settings(instance="test", home=tmp_path))
    assert (current / "seen_txid").read_text() == "267\n"
    assert (current / PIECE).exists()
    (current / PIECE).write_bytes(HEADER + entry(267) + b"\x09\x00torn")
    assert empty_piece(current) is None


@pytest.mark.parametrize(
    "left",
    [
        b"", HEADER[:5], HEADER, bytes(4096), HEADER + b"\xff" * 900, HEADER + entry(267)[:-1],
        HEADER + entry(267)[:9] + bytes(999),
    ],
)  # fmt: skip
def test_one_without_is_set_aside_and_the_namenode_looks_for_less(
    current: Path, tmp_path: Path, left: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (current / PIECE).write_bytes(left)
    set_aside_empty_journal(Settings(instance="test", home=tmp_path))
    assert (current / "seen_txid").read_text() == "266\n"
    assert (current.parent / ASIDE / PIECE).read_bytes() == left
    assert (
        "no whole transaction from 267 on: what HDFS was told since then is lost" in capsys.readouterr().out
    )
    set_aside_empty_journal(Settings(instance="test", home=tmp_path))
    assert (current / "seen_txid").read_text() == "266\n"


def test_a_namenode_that_never_ran_has_none(tmp_path: Path) -> None:
    assert empty_piece(tmp_path) is None
    (tmp_path / "seen_txid").write_text("")
    assert empty_piece(tmp_path) is None


@examples(100)
@given(bit=st.integers(0), number=st.integers(1, 30))
def test_a_wrong_bit_costs_no_whole_transaction(
    tmp_path_factory: pytest.TempPathFactory, bit: int, number: int
) -> None:
    piece = tmp_path_factory.mktemp("current") / PIECE
    (piece.parent / "seen_txid").write_text("267\n")
    parts = entries(number)
    data = bytearray(HEADER + b"".join(parts) + b"\xff" * 1000)
    bit %= 8 * (len(HEADER) + sum(map(len, parts)))
    data[bit // 8] ^= 1 << bit % 8
    piece.write_bytes(data)
    first = range(len(HEADER), len(HEADER) + len(parts[0]))
    if bit // 8 not in first:  # a later one, and the header, are the namenode's own matter
        assert empty_piece(piece.parent) is None
    elif number == 1:
        assert empty_piece(piece.parent) == piece
    else:
        with pytest.raises(MiddleDamage) as raised:
            empty_piece(piece.parent)
        assert (raised.value.bad, raised.value.whole) == (first.start, first.stop)


@examples(100)
@given(
    kept=st.integers(0),
    fill=st.sampled_from([b"", b"\0" * 70_000, b"\xff" * 70_000, b"\0" * 900 + b"\xff" * 5000]),
)
def test_a_piece_that_was_cut_in_its_first_transaction_is_torn(
    tmp_path_factory: pytest.TempPathFactory, kept: int, fill: bytes
) -> None:
    piece = tmp_path_factory.mktemp("current") / PIECE
    (piece.parent / "seen_txid").write_text("267\n")
    first = HEADER + entry(267, b"/a/file" * 9 + b"end")
    piece.write_bytes(first[: kept % len(first)] + fill)
    assert empty_piece(piece.parent) == piece


def test_nothing_is_touched_where_5000_whole_transactions_follow(current: Path, tmp_path: Path) -> None:
    data = bytearray(HEADER + b"".join(entries(5000)))
    data[len(HEADER) + 9] ^= 1
    (current / PIECE).write_bytes(data)
    with pytest.raises(MiddleDamage, match=f"truncate -s 8 .*{PIECE}"):
        set_aside_empty_journal(Settings(instance="test", home=tmp_path))
    assert (current / PIECE).read_bytes() == data
    assert (current / "seen_txid").read_text() == "267\n"
    assert not (current.parent / ASIDE).exists()
    (current / PIECE).write_bytes(data[:8])  # the remedy that it names
    set_aside_empty_journal(Settings(instance="test", home=tmp_path))
    assert (current / "seen_txid").read_text() == "266\n"


def test_a_lost_header_before_whole_transactions_is_damage(current: Path) -> None:
    (current / PIECE).write_bytes(bytes(8) + b"".join(entries(3)))
    with pytest.raises(MiddleDamage) as raised:
        empty_piece(current)
    assert (raised.value.bad, raised.value.whole) == (0, 8)


@pytest.mark.parametrize("fill", [b"\0", b"\xff", b"\x18\0\0\0"])
def test_a_large_piece_is_looked_through_in_time_that_grows_with_it(fill: bytes) -> None:
    data, begin = fill * ((8 << 20) // len(fill)), time.process_time()
    assert _first_whole(data, 267) is None
    assert time.process_time() - begin < 10
