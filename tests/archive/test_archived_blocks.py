"""Records of several lines: each line is archived once a record, whatever happens to the archiver."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

from sluice.archive import index
from sluice.archive.inbox import MESSAGE_BYTES
from sluice.archive.verification import rebuild
from sluice.storage.hdfs import HdfsStore
from sluice.storage.postgres import engine
from sluice.storage.tables.schema import archive_files
from sluice.transmission.line_schema import LINE_IN_RECORD
from sluice_lab.waiting import until
from tests.archive.archive_trial import Here, Trial

pytestmark = pytest.mark.stack


def indexed(trial: Trial) -> list[tuple[int, int]]:
    """Records and lines of each file, by the index."""
    t = archive_files.c
    query = sa.select(t.records, t.lines).where(t.topic == trial.topic).order_by(t.partition, t.first)
    with engine(trial.settings).connect() as connection:
        return [(row.records, row.lines) for row in connection.execute(query)]


@pytest.mark.parametrize("fault", ["archive_before_rename:2", "archive_after_rename:2"])
def test_an_archiver_that_is_killed_inside_a_batch(trial: Trial, fault: str) -> None:
    trial.produce_blocks(2_000, most=90)
    trial.produce(150)  # records of a line
    trial.produce_blocks(1_000, most=40)
    trial.produce_blocks(1_000, most=70, again=True)
    process = trial.process(fault, max_lines=300)
    assert process.wait(120) == -signal.SIGKILL
    trial.process(max_lines=300)
    trial.assert_exact()
    assert sum(lines for _, lines in indexed(trial)) == 4_150
    assert sum(records for records, _ in indexed(trial)) == sum(trial.ends().values())


def test_a_rebalance_between_two_archivers(trial: Trial) -> None:
    trial.produce_blocks(2_000, most=60)
    first = trial.process(max_lines=250)
    until(lambda: trial.partitions(first), what="it has begun")
    second = trial.process(max_lines=250)
    trial.produce_blocks(2_000, most=33)
    trial.produce_blocks(2_000, most=50, again=True)
    until(lambda: len(trial.partitions(first)) == len(trial.partitions(second)) == 1, what="both work")
    trial.assert_exact()
    assert trial.stop(first) == 0
    trial.produce_blocks(500, most=90)
    trial.assert_exact()
    assert trial.stop(second) == 0


def test_files_of_before_there_were_blocks_stand_beside_new_ones(
    trial: Trial, archive_here: Callable[..., Here]
) -> None:
    trial.produce(200, partition=0)
    here = archive_here()
    until(lambda: len(trial.archived()[0]) == 200, what="they are archived")
    here.stop()
    _make_old(trial)
    trial.produce_blocks(300, most=20)
    here = archive_here()
    until(lambda: sum(map(len, trial.archived().values())) == 500, what="all is archived")
    here.stop()
    found = trial.verified()
    assert not [each.problems for each in found.values() if each.problems]
    assert sum(each.lines for each in found.values()) == 500
    assert sum(each.records for each in found.values()) < 300
    before = indexed(trial)
    list(rebuild(trial.settings, trial.topic))
    assert indexed(trial) == before


def _make_old(trial: Trial) -> None:
    """Write the files again as they were before the column line_in_record."""
    store = HdfsStore.of(trial.settings)
    for file in trial.claims().files():
        path = f"{trial.directory()}/{file.name}"
        whole = pq.read_table(pa.BufferReader(store.read(path)))
        said = trial.claims().footer(file).to_metadata()
        del said["sluice.lines"]
        out = pa.BufferOutputStream()
        old = whole.drop_columns([LINE_IN_RECORD]).replace_schema_metadata(said | {"sluice.version": "1"})
        pq.write_table(old, out)
        store.delete(path)
        store.write(path, out.getvalue().to_pybytes())


def test_a_resumed_partition_goes_on_while_the_other_one_has_nothing_more(
    trial: Trial, archive_here: Callable[..., Here], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluice.archive.inbox.WAITING_BYTES", 2_000 * MESSAGE_BYTES)  # often paused
    monkeypatch.setattr("sluice.archive.session.POLL_RECORDS", 1_000)
    trial.produce(40_000, partition=0)
    trial.produce(20_000, partition=1)
    archive_here(max_lines=5_000)

    def archived() -> int:
        return sum(index.positions(trial.settings, trial.topic).values())

    until(lambda: archived() == 60_000, what="all is archived")
