"""HBase writes when the DataNode's disk becomes full, and is killed later: it has all that it answered.

The write that meets the full disk comes half. What was answered just before shares its last 512 bytes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from sluice.runtime.settings import Settings
from sluice.storage.hbase import STATE, STATE_FAMILY, HBase
from sluice_lab.chaos import file_systems, full_disk
from sluice_lab.waiting import until
from tests.cuts.stores import OwnDaemons, own_daemons

pytestmark = [pytest.mark.stack, pytest.mark.long]

SIZE = 4 << 30
ROWS, MANY, FULL_SECONDS = 3, 50, 8
VALUE = b"a value that is nowhere else" * 5


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """The DataNode's folder, in a file system of its own."""
    folder = tmp_path / "var" / "cut" / "data" / "datanode"
    probe = tmp_path / "probe"
    probe.mkdir()
    if why := file_systems.why_none(Settings(instance="chaos", home=probe)):
        pytest.skip(why)
    file_systems.give_file_system(tmp_path / "image", folder, SIZE)
    yield folder
    file_systems.take_file_system(folder)


def test_what_was_answered_is_there_after_a_full_disk_and_a_kill(tmp_path: Path, small_disk: Path) -> None:
    with own_daemons(tmp_path, "namenode", "datanode", "hbase", "hbase-thrift") as own:
        with HBase.of(own.settings) as hbase:
            hbase.create_table(STATE, {STATE_FAMILY.decode(): {"max_versions": 1}})
        own.stop()  # where its regions are is in a file then, not only in a log
        own.start()
        answered, over = [0], Event()

        def give() -> None:
            with HBase.of(own.settings) as hbase:
                while not over.is_set():
                    rows = range(answered[-1], answered[-1] + ROWS)
                    hbase.put(STATE, [(b"%07d" % row, {b"s:1.a": VALUE + b"%d" % row}) for row in rows])
                    answered.append(rows.stop)

        with ThreadPoolExecutor(1) as pool:
            giving = pool.submit(give)
            until(lambda: len(answered) > MANY or giving.done(), 120, "rows are written")
            filler = small_disk / full_disk.FILL
            full_disk.fill(filler)
            time.sleep(FULL_SECONDS)
            filler.unlink()
            before = len(answered)
            until(lambda: len(answered) > before + MANY or giving.done(), 120, "rows are written again")
            over.set()
            giving.result()
        own.kill()
        own.start()
        assert rows_of(own)[: answered[-1]] == list(range(answered[-1]))


def rows_of(own: OwnDaemons) -> list[int]:
    with HBase.of(own.settings) as hbase:
        return [int(row) for row, _ in hbase.scan(STATE)]
