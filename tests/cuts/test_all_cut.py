"""All stores lose their power and the ends of their files at once: each comes up, with what it answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cuts.contents import HBaseContent, HdfsContent, KafkaContent, PostgresContent, StoreContent
from tests.cuts.damage import dice
from tests.cuts.stores import own_daemons

pytestmark = [pytest.mark.stack, pytest.mark.long]

NAMES = ("postgres", "kafka", "namenode", "datanode", "hbase", "hbase-thrift")


def test_each_has_what_it_answered_and_nothing_else(tmp_path: Path) -> None:
    drawn = dice()
    with own_daemons(tmp_path, *NAMES) as own:
        # HDFS comes last: the end of its journal then says nothing of HBase's files, which are synced.
        contents: list[StoreContent] = [
            PostgresContent(own), KafkaContent(own, partitions=2), HBaseContent(own), HdfsContent(own),
        ]  # fmt: skip
        own.stop()
        own.start()
        for zeros in (False, True):
            for each in contents:
                each.give()
            own.kill()
            for each in contents:
                each.cut(drawn, zeros=zeros)
            own.start()
            for each in contents:
                each.check()
