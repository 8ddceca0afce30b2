"""HBase lost the end of its log, and its ZooKeeper a journal: it starts, with what was answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.stack.daemons.zookeeper_files import ASIDE
from sluice.storage.hbase import STATE, STATE_FAMILY, HBase
from tests.cuts.damage import damage, dice
from tests.cuts.stores import OwnDaemons, own_daemons

pytestmark = [pytest.mark.stack, pytest.mark.long]

PUTS, ROWS = 40, 10
VALUE = b"a value that is nowhere else" * 20


def log(own: OwnDaemons) -> Path:
    """The block of the write-ahead log that has the values."""
    blocks = own.home.glob("data/datanode/current/BP-*/current/rbw/blk_*")
    found = [each for each in blocks if each.suffix != ".meta" and VALUE in each.read_bytes()]
    return max(found, key=lambda each: each.stat().st_mtime)


def put(own: OwnDaemons, first: int) -> list[tuple[int, int]]:
    """Write rows; returns how many were answered, and how long the log was then."""
    found = []
    with HBase.of(own.settings) as hbase:
        for number in range(PUTS):
            begin = first + number * ROWS
            hbase.put(STATE, [(b"%07d" % row, {b"s:1.a": VALUE}) for row in range(begin, begin + ROWS)])
            found.append((begin + ROWS, log(own).stat().st_size))
    return found


def rows(own: OwnDaemons) -> list[int]:
    with HBase.of(own.settings) as hbase:
        return [int(row) for row, _ in hbase.scan(STATE)]


def test_what_was_answered_before_the_cut_is_there_and_nothing_else(tmp_path: Path) -> None:
    drawn = dice()
    with own_daemons(tmp_path, "namenode", "datanode", "hbase", "hbase-thrift") as own:
        with HBase.of(own.settings) as hbase:
            hbase.create_table(STATE, {STATE_FAMILY.decode(): {"max_versions": 1}})
        own.stop()  # where its regions are is in a file then, not only in a log
        own.start()
        there = 0
        for zeros in (False, True):
            answered = put(own, there)
            own.kill()
            done = damage(log(own), drawn, zeros=zeros)
            if zeros:  # the journal that ZooKeeper had just begun
                (folder,) = own.home.glob("data/zookeeper/*/version-2")
                number = max(int(each.suffix[1:], 16) for each in folder.glob("log.*")) + 1000
                (folder / f"log.{number:x}").write_bytes(bytes(drawn.randrange(70_000)))
            own.start()
            found = rows(own)
            assert found == list(range(len(found)))
            sure = max([count for count, length in answered if length <= done.kept // 512 * 512], default=0)
            assert max(there, sure) <= len(found) <= answered[-1][0]
            there = len(found)
        assert (folder / ASIDE / f"log.{number:x}").exists()
