"""Compaction on HDFS and PostgreSQL: killed at each step beside an archiver, and read meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import sqlalchemy as sa

from sluice.archive import index, layout
from sluice.archive.compaction import CompactionUnderWay, alone, compact
from sluice.storage.hive import Hive
from sluice.storage.postgres import engine
from sluice.storage.tables.schema import archive_files
from sluice_lab.waiting import until
from tests.archive.aged import age
from tests.archive.archive_trial import Here, Trial, sluice_archive

pytestmark = pytest.mark.stack

LINES = 600


def old(trial: Trial) -> None:
    """Let all files of partition 0 but the newest be closed."""
    age(trial.settings, trial.directory(0), trial.claims().files()[:-1])


def pass_time(trial: Trial) -> None:
    """Let readers have had time enough since the index was written."""
    t = archive_files
    with engine(trial.settings).begin() as connection:
        long_ago = sa.func.now() - sa.text("interval '9 days'")
        connection.execute(sa.update(t).where(t.c.topic == trial.topic).values(indexed_at=long_ago))


def killed_at(trial: Trial, point: str) -> int:
    """The exit code of a compaction that dies at that point."""
    program = [sys.executable, "-m", "sluice.cli.main", "--instance", trial.settings.instance]
    environment = {**os.environ, "SLUICE_FAULT": point}
    command = [*program, "archive", "compact", trial.topic]
    return subprocess.run(command, env=environment, capture_output=True, check=False).returncode


def indexed(trial: Trial) -> int:
    """How many records somebody reads who asks the index."""
    cut = index.positions(trial.settings, trial.topic)
    return sum(each.records for each in index.files_for(trial.settings, trial.topic, None, cut))


def made(trial: Trial, archive_here: Callable[..., Here]) -> Here:
    """An archive of many small files in partition 0, and its archiver, which goes on."""
    trial.produce(LINES, partition=0)
    here = archive_here(max_lines=20)
    until(lambda: index.positions(trial.settings, trial.topic).get(0) == LINES, what="all is archived")
    return here


@pytest.mark.e2e
@pytest.mark.parametrize(
    "point", ["archive_before_rename", "archive_after_rename", "archive_merged", "archive_replaced_deleted:3"]
)
def test_a_compaction_that_dies_leaves_no_gap_and_no_double(
    trial: Trial, archive_here: Callable[..., Here], point: str
) -> None:
    made(trial, archive_here)
    before = trial.archived()
    old(trial)
    if point.startswith("archive_replaced"):
        assert sluice_archive(trial, "compact").returncode == 0
        pass_time(trial)
    assert killed_at(trial, point) == -signal.SIGKILL
    assert trial.archived() == before
    assert indexed(trial) == LINES
    assert sluice_archive(trial, "verify", "--deep").returncode == 0
    trial.produce(50, partition=0)
    trial.assert_exact()
    assert sluice_archive(trial, "compact").returncode == 0
    pass_time(trial)
    assert sluice_archive(trial, "compact").returncode == 0
    trial.assert_exact()
    assert indexed(trial) == LINES + 50
    assert sluice_archive(trial, "rebuild-index").returncode == 0
    assert indexed(trial) == LINES + 50
    assert len(trial.claims().standing().replaced) == 0
    assert len(trial.claims().files()) < 10


def test_the_index_has_every_record_once_at_each_moment(
    trial: Trial, archive_here: Callable[..., Here]
) -> None:
    made(trial, archive_here).stop()
    old(trial)
    *closed, newest = trial.claims().files()
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(lambda: list(compact(trial.settings, trial.topic)))
        counts = set()
        while not done.done():
            counts.add(indexed(trial))
            time.sleep(0.002)
    assert counts | {indexed(trial)} == {LINES}
    merged = {each.place.partition: (each.merged, each.made, each.problems) for each in done.result()}
    assert merged[0] == (len(closed), 1, ())
    with Hive(trial.settings) as hive:  # while the files that were merged are still there
        query = "SELECT kafka_partition, count(*) FROM raw WHERE topic = %(topic)s GROUP BY kafka_partition"
        assert hive.query(query, {"topic": trial.topic}).rows == [(0, LINES)]
    (whole, last) = trial.claims().files()
    assert (layout.next_of(whole.name), last) == (layout.first_of(newest.name), newest)


def test_two_at_once_are_refused_and_a_dry_run_is_not(
    trial: Trial, archive_here: Callable[..., Here]
) -> None:
    made(trial, archive_here).stop()
    with alone(engine(trial.settings), trial.topic):
        with pytest.raises(CompactionUnderWay):
            list(compact(trial.settings, trial.topic))
        refused = sluice_archive(trial, "compact")
        assert (refused.returncode, "wait until it has ended" in refused.stderr) == (1, True)
        assert sluice_archive(trial, "compact", "--dry-run").returncode == 0
    assert sluice_archive(trial, "compact").returncode == 0
