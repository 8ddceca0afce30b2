"""HBase's store files: one that was being written is passed over, a finished one that is lost is named."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sluice.monitoring.damaged_files import damaged
from sluice.runtime.jvm import HBASE_OPENS, java_command
from sluice.storage.hbase import RESULTS, STATE, HBase, HBaseUnavailable, ensure_tables
from sluice.storage.hdfs import HdfsStore
from sluice_lab.waiting import until
from tests.cuts.damage import damage, dice
from tests.cuts.stores import OwnDaemons, lost_files, own_daemons, watched

pytestmark = [pytest.mark.stack, pytest.mark.long]

NAMES = ("namenode", "datanode", "hbase", "hbase-thrift")
#: With what a store file begins, and how long it must be to be in the midst of being written.
BEGIN, MIDST_BYTES = b"DATABLK*", 1 << 20
ROWS, COPIES = 3000, 1200
#: HBase opens a region again that it could not, in growing intervals.
OPENED_SECONDS = 300.0
#: Its Thrift server makes a small compaction of a large one.
COMPACTOR = "org.apache.hadoop.hbase.util.compaction.MajorCompactor"


def value(row: int) -> bytes:
    return b"%07d" % row * COPIES


def put(own: OwnDaemons, rows: range, table: str = STATE, column: bytes = b"s:1.a") -> None:
    with HBase.of(own.settings, patience=OPENED_SECONDS) as hbase:
        hbase.put(table, ((b"%07d" % row, {column: value(row)}) for row in rows))


def whole_rows(own: OwnDaemons, table: str = STATE, patience: float = 120.0) -> list[int]:
    """Those that have what was put."""
    with HBase.of(own.settings, patience=patience) as hbase:
        found = [(int(row), cells) for row, cells in hbase.scan(table)]
    return [row for row, cells in found if [*cells.values()] == [value(row)]]


def blocks(own: OwnDaemons, folder: str) -> Iterator[Path]:
    """Those of store files, in this folder of the datanode."""
    for path in own.home.glob(f"data/datanode/current/BP-*/current/{folder}/blk_*"):
        with suppress(FileNotFoundError), path.open("rb") as file:
            if path.suffix != ".meta" and file.read(len(BEGIN)) == BEGIN:
                yield path


def unfinished(own: OwnDaemons) -> list[Path]:
    with suppress(FileNotFoundError):
        return [each for each in blocks(own, "rbw") if each.stat().st_size >= MIDST_BYTES]
    return []


def begin(own: OwnDaemons, work: str) -> subprocess.Popen[bytes] | None:
    """Have HBase write files; of a compaction, what asked for it."""
    if work == "flush":
        own.signal("hbase", signal.SIGTERM)  # it writes what it has in memory, and ends
        return None
    argv = java_command(
        "hbase",
        COMPACTOR,
        ["-table", STATE, "-cf", "s", "-servers", "1", "-skipWait"],
        heap="128m",
        options=HBASE_OPENS,
        classpath=[own.home / "conf" / "hbase"],
        quick=True,
    )
    return subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_a_flush_or_compaction_that_is_cut_costs_no_row(tmp_path: Path) -> None:
    drawn = dice()
    with own_daemons(tmp_path, *NAMES) as own:
        ensure_tables(own.settings)
        there = 0
        for work, way in (("flush", "cut"), ("flush", "gone"), ("compaction", "zeros")):
            put(own, range(there, there + ROWS))
            there += ROWS
            asked = begin(own, work)
            until(lambda: unfinished(own), what=f"a {work} is under way", poll=0.002)
            own.signal("datanode", signal.SIGSTOP)
            own.kill()
            if asked:
                asked.kill()
                asked.wait()
            (torn,) = unfinished(own)
            if way == "gone":
                for each in torn.parent.glob(f"{torn.name}*"):
                    each.unlink()
            else:
                damage(torn, drawn, zeros=way == "zeros")
            own.start()
            assert whole_rows(own) == list(range(there)), (work, way)


@pytest.mark.parametrize("zeros", [False, True])
def test_a_lost_store_file_is_named_and_what_else_there_is_is_served(tmp_path: Path, zeros: bool) -> None:
    drawn = dice()
    with own_daemons(tmp_path, *NAMES) as own:
        ensure_tables(own.settings)
        put(own, range(100))
        put(own, range(100), RESULTS, b"r:o")
        own.stop()  # they are in files then
        own.start()
        put(own, range(100, 200))
        own.kill()
        (state,) = (each for each in blocks(own, "finalized/*/*") if b"s1.a" in each.read_bytes())
        damage(state, drawn, zeros=zeros)
        with watched(own):
            own.start()
        (path,) = until(lambda: lost_files(own), what="it is named")
        (alert,) = dict(damaged([path])).values()
        assert "HBase does not serve the regions" in alert
        assert path.startswith("/hbase/data/default/state/")
        assert whole_rows(own, RESULTS) == list(range(100))
        with pytest.raises(HBaseUnavailable):
            whole_rows(own, patience=1.0)
        assert HdfsStore.of(own.settings).rename(path, "/lost-store-file")  # as the runbook says
        put(own, range(200, 300))
        assert whole_rows(own) == list(range(100, 300))
