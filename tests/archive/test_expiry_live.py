"""Retention of the archive on HDFS and PostgreSQL: the archiver goes on, and all checks agree."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import pytest

from sluice.archive import index
from sluice.archive.expiry import expire
from sluice.storage.postgres import engine
from sluice.storage.tables import archive_expiry
from sluice.storage.tables.archive_expiry import DaysExpired
from sluice_lab.waiting import until
from tests.archive.archive_trial import Here, Trial, sluice_archive

pytestmark = pytest.mark.stack


def test_the_oldest_files_go_and_the_chain_goes_on(trial: Trial, archive_here: Callable[..., Here]) -> None:
    trial.produce(300, partition=0)
    here = archive_here(max_lines=100)
    until(lambda: index.positions(trial.settings, trial.topic).get(0) == 300, what="all is archived")
    here.stop()
    before = trial.archived()[0]
    (*_, newest) = trial.claims().files()
    kept = trial.claims().footer(newest).lines
    retention = trial.settings.retention.model_copy(update={"archive_days": 1})
    settings = trial.settings.model_copy(update={"retention": retention})
    assert all(done.files == 0 for done in expire(settings, trial.topic))

    later = datetime.now(UTC) + timedelta(days=3)
    done = {each.place.partition: each for each in expire(settings, trial.topic, later)}
    assert done[0].problem == ""
    assert (done[0].lines, done[0].deleted) == (300 - kept, done[0].files)
    assert trial.archived()[0] == before[300 - kept :]
    database = engine(trial.settings)
    with database.connect() as connection:
        assert archive_expiry.sums(connection, trial.topic).lines == 300 - kept
    with pytest.raises(DaysExpired, match=r"retention\.archive_days"):
        archive_expiry.check(database, trial.topic, [date(2015, 5, 17)])
    assert sluice_archive(trial, "verify", "--deep").returncode == 0
    assert sluice_archive(trial, "rebuild-index").returncode == 0
    assert sluice_archive(trial, "repair").stdout == f"the archive of {trial.topic} lacks nothing\n"

    archive_here(max_lines=100)
    trial.produce(50, partition=0)
    until(lambda: index.positions(trial.settings, trial.topic).get(0) == 350, what="the chain goes on")
    assert sluice_archive(trial, "verify").returncode == 0
