"""HBase's ZooKeeper lost a snapshot, which it does not sync: it starts, and HBase has what it answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.stack.daemons.zookeeper_files import ASIDE
from tests.cuts.contents import HBaseContent
from tests.cuts.damage import damage, dice
from tests.cuts.stores import OwnDaemons, own_daemons

pytestmark = [pytest.mark.stack, pytest.mark.long]


def newest(own: OwnDaemons, kind: str) -> Path:
    found = own.home.glob(f"data/zookeeper/*/version-2/{kind}.*")
    return max(found, key=lambda each: int(each.suffix[1:], 16))


def test_it_goes_on_with_an_older_snapshot_or_begins_anew(tmp_path: Path) -> None:
    drawn = dice()
    with own_daemons(tmp_path, "namenode", "datanode", "hbase", "hbase-thrift") as own:
        content = HBaseContent(own)
        content.give()
        own.kill()
        torn = damage(newest(own, "snapshot"), drawn, zeros=False)  # a new instance has only this one
        own.start()
        content.check()
        assert (torn.path.parent / ASIDE / torn.path.name).exists()
        for way in ("cut", "zeros", "empty", "gone"):
            own.kill()
            own.start()
            content.give()
            own.kill()
            snapshot, journal = newest(own, "snapshot"), newest(own, "log")
            if way == "gone":
                snapshot.unlink()
            elif way == "empty":
                snapshot.write_bytes(b"")
            else:
                damage(snapshot, drawn, zeros=way == "zeros")
            own.start()
            content.check()
            assert int(newest(own, "log").suffix[1:], 16) > int(journal.suffix[1:], 16), way
        assert own.said("hbase").count("ZooKeeper has no whole snapshot") == 1
