"""A power cut takes only what was not on the disk. `stores` says of which files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sluice_lab.chaos import unsynced
from sluice_lab.chaos.stores import STORES, PoweredStore

PAGE = os.sysconf("SC_PAGESIZE")


def write(path: Path, data: bytes, *, sync: bool) -> None:
    with path.open("ab") as out:
        out.write(data)
        out.flush()
        if sync:
            os.fsync(out.fileno())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    if why := unsynced.why_not(tmp_path):
        pytest.skip(why)
    assert list(tmp_path.iterdir()) == []
    return tmp_path / "segment.log"


def test_what_was_synced_stays(file: Path) -> None:
    write(file, b"a" * 10 * PAGE, sync=True)
    assert unsynced.cut(file, 64 << 10) == 0
    assert file.stat().st_size == 10 * PAGE


def test_no_more_is_taken_than_was_drawn_or_than_is_not_on_the_disk(file: Path) -> None:
    write(file, b"a" * 10 * PAGE, sync=True)
    write(file, b"b" * 5 * PAGE, sync=False)
    assert unsynced.cut(file, 5_000) == 5_000
    write(file, b"c" * 5_000, sync=False)
    assert unsynced.cut(file, 64 << 10) <= 5 * PAGE
    assert file.read_bytes()[: 10 * PAGE] == b"a" * 10 * PAGE


@pytest.mark.parametrize("synced", [1, 100, PAGE, 10 * PAGE + 300])
def test_what_was_synced_in_a_page_that_got_more_stays(file: Path, synced: int) -> None:
    """The kernel says of whole pages whether they are on the disk."""
    write(file, b"a" * synced, sync=True)
    write(file, b"b" * 3 * PAGE, sync=False)
    unsynced.cut(file, 64 << 10)
    assert file.read_bytes()[:synced] == b"a" * synced
    write(file, b"c" * 10, sync=False)
    unsynced.cut(file, 64 << 10)
    assert file.read_bytes()[:synced] == b"a" * synced


def touch(path: Path, data: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def test_of_kafka_only_the_newest_segment_of_each_of_the_topics_partitions(tmp_path: Path) -> None:
    kafka = tmp_path / "data" / "kafka"
    wanted = [touch(kafka / f"logs-{n}" / "00000000000000000200.log") for n in range(2)]
    touch(kafka / "logs-0" / "00000000000000000000.log")
    touch(kafka / "logs-0" / "00000000000000000200.index")
    touch(kafka / "__consumer_offsets-0" / "00000000000000000000.log")
    assert sorted(STORES["kafka"].cut_files(tmp_path)) == wanted


def test_of_hdfs_only_blocks_that_can_be_made_again(tmp_path: Path) -> None:
    blocks = tmp_path / "data/datanode/current/BP-1/current"
    archived = touch(blocks / "finalized/subdir0/subdir0/blk_1", b"PAR1...")
    touch(blocks / "finalized/subdir0/subdir0/blk_1_1001.meta", b"PAR1")
    touch(blocks / "finalized/subdir0/subdir0/blk_2", b"DATABLK*")
    log = touch(blocks / "rbw/blk_3", b"PWAL")
    assert list(STORES["datanode"].cut_files(tmp_path)) == [archived]
    zookeeper = tmp_path / "data/zookeeper/zookeeper_0/version-2"
    own = [touch(zookeeper / name) for name in ("log.1", "snapshot.0")]
    touch(zookeeper / "lost" / "log.1")
    assert list(STORES["hbase"].cut_files(tmp_path)) == [log, *own]


def test_a_file_that_goes_meanwhile_is_none(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert list(PoweredStore(("a",), ("folder", "nothing/*")).cut_files(tmp_path)) == []
