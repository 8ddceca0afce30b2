"""The archive is exact after kill -9 of what it depends on, while it runs."""

from __future__ import annotations

import os
import signal
import time

import pytest

from sluice.archive import index
from sluice.stack import supervisord
from sluice_lab.waiting import until
from tests.archive.archive_trial import Trial

pytestmark = [pytest.mark.stack, pytest.mark.e2e]


def kill_and_wait(trial: Trial, name: str) -> None:
    """kill -9 of one daemon; returns when its supervisor has started another."""
    before = supervisord.programs(trial.settings)[name].pid
    os.kill(before, signal.SIGKILL)

    def again() -> bool:
        now = supervisord.programs(trial.settings)[name]
        return now.state == "RUNNING" and now.pid not in {0, before}

    until(again, what=f"{name} runs again")


def test_the_namenode_is_killed_while_files_are_written(trial: Trial) -> None:
    """tests/e2e/test_faults.py kills a DataNode and PostgreSQL."""
    process = trial.process(max_lines=100, max_age_seconds=0.3)
    trial.produce(2000)
    until(lambda: sum(p["files"] for p in trial.partitions(process).values()) > 2, what="it archives")
    trial.produce(2000)
    kill_and_wait(trial, "namenode")
    for _ in range(4):
        trial.produce(300)
        time.sleep(0.3)

    def everything() -> bool:
        # Look at the archiver's own figures first: the store may still be away.
        ends = [p["position"] or 0 for p in trial.partitions(process).values()]
        return sum(ends) == trial.sent

    until(everything, 120, "it caught up")
    trial.assert_exact()
    assert process.poll() is None, "the archiver outlived it"
    until(
        lambda: sum(index.positions(trial.settings, trial.topic).values()) == trial.sent,
        what="the index caught up",
    )
    assert trial.stop(process) == 0
