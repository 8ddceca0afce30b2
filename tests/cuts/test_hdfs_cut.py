"""HDFS lost ends of its journal or of blocks, or a piece of the journal: it starts, and says what is lost."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sluice.monitoring.damaged_files import damaged
from sluice.stack import entry, health, safe_mode
from sluice.stack.daemons.lost_journal import ASIDE
from sluice.stack.safe_mode import SafeModeExit
from sluice.storage.hdfs import HdfsStore, HdfsUnavailable
from sluice_lab.waiting import until
from tests.cuts.damage import damage, dice
from tests.cuts.stores import OwnDaemons, own_daemons

pytestmark = [pytest.mark.stack, pytest.mark.long]

FILES, COPIES, LOST = 30, 2000, 3
#: A namenode fills its journal up with these bytes.
FILL = b"\xff"
LOOK_SECONDS = 2.0


def text(name: str) -> bytes:
    return name.encode() * COPIES


def write(own: OwnDaemons, first: int, journal: Path | None = None) -> list[tuple[str, int]]:
    """Write files as the archiver does; returns each with the journal's length when it stood."""
    store, found = HdfsStore.of(own.settings), []
    for number in range(first, first + FILES):
        name = f"f{number:05}"
        store.write(f"/a/.tmp-{name}", text(name))
        store.rename(f"/a/.tmp-{name}", f"/a/{name}")
        found.append((name, len(journal.read_bytes().rstrip(FILL)) if journal else 0))
    return found


def names(own: OwnDaemons) -> list[str]:
    found = HdfsStore.of(own.settings).list("/a")
    return [each.name for each in found if not each.name.startswith(".")]


def journal(own: OwnDaemons) -> Path:
    """The piece that is being written."""
    return max((own.home / "data" / "namenode" / "current").glob("edits_inprogress_*"))


@contextmanager
def watched(own: OwnDaemons) -> Iterator[list[str]]:
    """The watch looks after the namenode; yields what it says and alerts."""
    said, over = list[str](), threading.Event()
    leave = SafeModeExit(own.settings, said.append, said.append)

    def look() -> None:
        while not over.wait(LOOK_SECONDS):
            leave({"namenode": entry.check(own.settings, "namenode") or ""})

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield said
    finally:
        over.set()
        thread.join()


def lost_files(own: OwnDaemons) -> list[str]:
    info = health.jmx(own.settings.hdfs.webhdfs, "Hadoop:service=NameNode,name=NameNodeInfo")
    found: list[str] = json.loads(info["CorruptFiles"])
    return found


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
        written = write(own, 0, journal(own))
        kept = drawn.randrange(10, FILES - 5)
        own.kill()
        os.truncate(journal(own), written[kept - 1][1])
        # Without lost blocks it leaves before it looks at what is newer; one of these few may be missing.
        for torn in blocks(own)[kept - LOST : kept]:
            damage(torn, drawn, zeros=False, most=len(text("f00000")))
        with watched(own) as said:
            own.start()
        lost = len(text("f00000")) * (FILES - kept)
        assert f"{lost:,} bytes of blocks of files that it does not have" in said[0]
        assert len(said) == 2, said
        assert names(own) == [name for name, _ in written[:kept]]
        # Their numbers are given again, and the datanode must not have such blocks any more.
        write(own, FILES)
        store = HdfsStore.of(own.settings)
        for name in set(names(own)) - {name for name, _ in written[kept - LOST : kept]}:
            assert store.read(f"/a/{name}") == text(name)


def test_one_wrong_bit_before_whole_transactions_is_left_to_a_person(tmp_path: Path) -> None:
    with own_daemons(tmp_path, "namenode", "datanode") as own:
        write(own, 0)
        there = names(own)
        own.kill()
        piece = journal(own)
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
        assert names(own) == there


def test_it_starts_whatever_its_end_is(tmp_path: Path) -> None:
    drawn = dice()
    with own_daemons(tmp_path, "namenode", "datanode") as own:
        there: list[str] = []
        for zeros in (False, True):
            written = write(own, len(there), journal(own))
            own.kill()
            # Not all of it: the transactions that a finished piece has are on the disk.
            done = damage(journal(own), drawn, zeros=zeros, padding=FILL, most=4000)
            own.start()
            found = names(own)
            assert found == [*there, *(name for name, _ in written)][: len(found)]
            assert {name for name, length in written if length <= done.kept} <= set(found)
            there = found
            write(own, len(there), None)
            there = names(own)
        own.kill()
        own.start()  # it begins a new piece
        own.kill()
        lost = journal(own)
        damage(lost, drawn, zeros=False, most=lost.stat().st_size)
        lost.write_bytes(lost.read_bytes()[: drawn.randrange(20)])
        own.start()
        assert names(own) == there
        assert (own.home / "data" / "namenode" / ASIDE / lost.name).exists()
        assert "no whole transaction" in own.said("namenode")
        newest = blocks(own)[-3:]
        own.kill()
        for each in newest:
            damage(each, drawn, zeros=False, most=len(text("f00000")))
        with watched(own) as said:
            own.start()
        assert "no further block is reported" in said[0]
        (alert,) = dict(damaged(until(lambda: lost_files(own), what="they are named"))).values()
        gone = names(own)[-3:]
        assert all(f"/a/{name}" in alert for name in gone)
        for name in names(own):
            store = HdfsStore.of(own.settings, patience=1.0)
            if name in gone:
                with pytest.raises(HdfsUnavailable):
                    store.read(f"/a/{name}")
            else:
                assert store.read(f"/a/{name}") == text(name)
