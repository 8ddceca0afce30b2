"""All stores lose their power and the ends of their files at once: each comes up, with what it answered.

But for the end of HDFS's journal, which a power cut does not take (`test_hdfs_cut`). Without it the namenode
names blocks as others that the datanode still has, and HBase ends a few times before it runs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cuts.contents import HBaseContent, KafkaContent, PostgresContent, StoreContent, lose_power
from tests.cuts.damage import dice
from tests.cuts.stores import own_daemons

pytestmark = [pytest.mark.stack, pytest.mark.long]

NAMES = ("postgres", "kafka", "namenode", "datanode", "hbase", "hbase-thrift")


def test_each_has_what_it_answered_and_nothing_else(tmp_path: Path) -> None:
    drawn = dice()
    with own_daemons(tmp_path, *NAMES) as own:
        contents: list[StoreContent] = [
            PostgresContent(own),
            KafkaContent(own, partitions=2),
            HBaseContent(own),
        ]
        own.stop()
        own.start()
        for zeros in (False, True):
            lose_power(own, drawn, *contents, zeros=zeros)
