"""The log of a job that runs is turned under it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sluice.runtime import detached
from sluice.runtime.settings import Settings
from sluice.stack import job_logs
from sluice_lab.waiting import until

WRITER = """
import sys, time
for number in range(10_000_000):
    print(number, flush=True)
    time.sleep(0.002)
"""


def test_only_a_log_that_is_too_large_is_turned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_logs, "MOST_BYTES", 1_000)
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "small.log").write_text("x" * 1_000)
    (logs / "archiver.log").write_text("old\n" * 500)
    (logs / "archiver.log.4").write_text("the oldest")
    settings = Settings(instance="test", home=tmp_path)
    assert job_logs.turn_all(settings) == [logs / "archiver.log"]
    assert (logs / "archiver.log").read_text() == ""
    assert (logs / "archiver.log.1").read_text() == "old\n" * 250  # its end
    (logs / "archiver.log").write_text("new\n" * 500)
    job_logs.turn_all(settings)
    kept = {path.name: path.read_text()[:4] for path in logs.glob("archiver.log*")}
    assert kept == {
        "archiver.log": "", "archiver.log.1": "new\n", "archiver.log.2": "old\n", "archiver.log.4": "the ",
    }  # fmt: skip
    for _ in range(5):
        (logs / "archiver.log").write_text("new\n" * 500)
        job_logs.turn_all(settings)
    assert len(list(logs.glob("archiver.log.*"))) == detached.LOGS_KEPT


@pytest.mark.slow
def test_a_job_writes_on_into_the_log_that_was_emptied(tmp_path: Path) -> None:
    run, log = tmp_path / "run", tmp_path / "logs" / "writer.log"
    record = detached.start("writer", [sys.executable, "-c", WRITER], {}, run=run)
    try:
        until(lambda: log.stat().st_size > 500)
        job_logs.turn(log)
        until(lambda: log.stat().st_size > 500)
    finally:
        detached.stop(record, 0)
    before = log.with_name("writer.log.1").read_text().split()
    after = log.read_bytes()
    assert b"\0" not in after  # it appends, so there is no hole
    last, first = int(before[-1]), int(after.split()[0])
    assert last <= first <= last + 5
