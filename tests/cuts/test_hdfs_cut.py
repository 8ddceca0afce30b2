"""HDFS lost ends of its journal or of blocks, or a piece of the journal: it starts, and says what is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sluice.monitoring.damaged_files import damaged
from sluice.stack import safe_mode
from sluice.stack.daemons.lost_journal import ASIDE
from sluice.storage.hdfs import HdfsStore, HdfsUnavailable
from sluice_lab.waiting import until
from tests.cuts.contents import FILES, HdfsContent, lose_power, text
from tests.cuts.damage import damage, dice
from tests.cuts.stores import OwnDaemons, lost_files, own_daemons, watched

pytestmark = [pytest.mark.stack, pytest.mark.long]

#: How many blocks lose their ends.
LOST = 3


def blocks(own: OwnDaemons) -> list[Path]:
    """The finished ones, in the order in which they were begun."""
    found = own.home.glob("data/datanode/current/BP-*/current/finalized/*/*/blk_*")
    return sorted((each for each in found if each.suffix != ".meta"), key=lambda each: each.name)


def test_blocks_of_files_that_the_journal_forgot_do_not_keep_it_in_safe_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safe_mode, "FORCE_SECONDS", 50.0)
    drawn = dice()
    with own_daemons(tmp_path, "namenode", "datanode") as own:
        content = HdfsContent(own)
        written = content.write(0)
        kept = drawn.randrange(10, FILES - 5)
        own.kill()
        os.truncate(content.journal(), written[kept - 1][1])
        # Without lost blocks it leaves before it looks at what is newer; one of these few may be missing.
        for torn in blocks(own)[kept - LOST : kept]:
            damage(torn, drawn, zeros=False, most=len(text("f00000")))
        with watched(own) as said:
            own.start()
        lost = len(text("f00000")) * (FILES - kept)
        assert f"{lost:,} bytes of blocks of files that it does not have" in said[0]
        assert len(said) == 2, said
        assert content.names() == [name for name, _ in written[:kept]]
        # Their numbers are given again, and the datanode must not have such blocks any more.
        content.write(FILES)
        store = HdfsStore.of(own.settings)
        for name in set(content.names()) - {name for name, _ in written[kept - LOST : kept]}:
            assert store.read(f"/a/{name}") == text(name)


def test_one_wrong_bit_before_whole_transactions_is_left_to_a_person(tmp_path: Path) -> None:
    with own_daemons(tmp_path, "namenode", "datanode") as own:
        content = HdfsContent(own)
        content.give()
        there = content.names()
        own.kill()
        piece = content.journal()
        before = piece.read_bytes()
        damaged = bytearray(before)
        damaged[20] ^= 1  # of its first transaction
        piece.write_bytes(damaged)
        with pytest.raises(AssertionError, match="ends again and again"):
            own.start()
        assert piece.read_bytes() == damaged
        assert f"{piece} is damaged at byte 8, and from byte" in own.said("namenode")
        own.kill()
        piece.write_bytes(before)  # a person puts it back
        own.start()
        assert content.names() == there


def test_it_starts_whatever_its_end_is(tmp_path: Path) -> None:
    drawn = dice()
    with own_daemons(tmp_path, "namenode", "datanode") as own:
        content = HdfsContent(own)
        for zeros in (False, True):
            lose_power(own, drawn, content, zeros=zeros)
            content.give()
        there = content.names()
        own.kill()
        own.start()  # it begins a new piece
        own.kill()
        lost = content.journal()
        damage(lost, drawn, zeros=False, most=lost.stat().st_size)
        lost.write_bytes(lost.read_bytes()[: drawn.randrange(20)])
        own.start()
        assert content.names() == there
        assert (own.home / "data" / "namenode" / ASIDE / lost.name).exists()
        assert "no whole transaction" in own.said("namenode")
        newest = blocks(own)[-LOST:]
        own.kill()
        for each in newest:
            damage(each, drawn, zeros=False, most=len(text("f00000")))
        with watched(own) as said:
            own.start()
        assert "no further block is reported" in said[0]
        (alert,) = dict(damaged(until(lambda: lost_files(own), what="they are named"))).values()
        gone = content.names()[-LOST:]
        assert all(f"/a/{name}" in alert for name in gone)
        for name in content.names():
            store = HdfsStore.of(own.settings, patience=1.0)
            if name in gone:
                with pytest.raises(HdfsUnavailable):
                    store.read(f"/a/{name}")
            else:
                assert store.read(f"/a/{name}") == text(name)
