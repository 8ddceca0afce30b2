"""Only a piece of the journal that has no whole transaction is set aside."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from sluice.runtime.settings import Settings
from sluice.stack.daemons.lost_journal import ASIDE, empty_piece, set_aside_empty_journal

PIECE = "edits_inprogress_0000000000000000267"
HEADER = b"\xff\xff\xff\xbd\x00\x00\x00\x00"


def entry(transaction: int) -> bytes:
    """The beginning of a piece, as a namenode writes it."""
    text = b"\x18" + (12).to_bytes(4, "big") + transaction.to_bytes(8, "big")
    return text + zlib.crc32(text).to_bytes(4, "big")


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
