"""The tasks that prune, as Airflow runs them, where no daemon is needed."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sluice.stack import job_logs
from tests.stack.daemons.test_zookeeper_files import WHOLE


def test_files_are_pruned_by_the_settings_of_the_connections(home: Path, connected: Any) -> None:
    from sluice_airflow.retention import PARTS, Pruning

    old = datetime.now(UTC) - timedelta(days=401)
    page = home / "data_docs" / "validations" / "results" / "logs 2015-05-17" / "t" / "page.html"
    page.parent.mkdir(parents=True)
    page.write_text("page")
    for path in (page, page.parent):
        os.utime(path, (old.timestamp(), old.timestamp()))
    log = home / "logs" / "archiver.log"
    log.parent.mkdir()
    with log.open("wb") as out:
        out.truncate(job_logs.MOST_BYTES + 1)
    snapshots = home / "data" / "zookeeper" / "zookeeper_0" / "version-2"
    snapshots.mkdir(parents=True)
    for number in range(5):
        (snapshots / f"snapshot.{number}").write_bytes(WHOLE)
    assert Pruning(task_id="files", part="files").execute({}) == [
        "1 pages of Data Docs deleted",
        "logs of jobs turned: archiver.log",
        "2 old files of ZooKeeper deleted",
        "0 files deleted that stores had set aside",
        "0 folders deleted that killed processes of Spark left",
    ]
    assert not page.exists()
    assert log.stat().st_size == 0
    assert set(PARTS) == {"books", "airflow", "files", "hdfs"}


def test_a_checkpoint_is_left_to_those_who_run_hdfs(home: Path, connected: Any, monkeypatch: Any) -> None:
    from sluice.runtime.settings import get_settings
    from sluice_airflow.retention import Pruning

    monkeypatch.setenv("SLUICE_EXTERNAL", '["hdfs"]')
    get_settings.cache_clear()
    assert "external" in Pruning(task_id="hdfs", part="hdfs").execute({})[0]
