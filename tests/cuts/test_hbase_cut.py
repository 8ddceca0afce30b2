"""HBase lost the end of its log, and its ZooKeeper a journal: it starts, with what was answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.stack.daemons.zookeeper_files import ASIDE
from tests.cuts.contents import HBaseContent
from tests.cuts.damage import dice
from tests.cuts.stores import own_daemons

pytestmark = [pytest.mark.stack, pytest.mark.long]


def test_what_was_answered_before_the_cut_is_there_and_nothing_else(tmp_path: Path) -> None:
    drawn = dice()
    with own_daemons(tmp_path, "namenode", "datanode", "hbase", "hbase-thrift") as own:
        content = HBaseContent(own)
        own.stop()  # where its regions are is in a file then, not only in a log
        own.start()
        for zeros in (False, True):
            content.give()
            own.kill()
            content.cut(drawn, zeros=zeros)
            if zeros:  # the journal that ZooKeeper had just begun
                (folder,) = own.home.glob("data/zookeeper/*/version-2")
                number = max(int(each.suffix[1:], 16) for each in folder.glob("log.*")) + 1000
                (folder / f"log.{number:x}").write_bytes(bytes(drawn.randrange(70_000)))
            own.start()
            content.check()
        assert (folder / ASIDE / f"log.{number:x}").exists()
