"""A partition's archiver waits while a disk is nearly full, and says so."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from sluice.archive import status
from sluice.archive.file import ArchivedPartition
from sluice.archive.status import PartitionStatus
from sluice.runtime.holds import Hold, hold, release
from sluice.stack.progress import PartitionState
from sluice_lab.waiting import until
from tests.tasks.database import sqlite


def test_it_waits_until_there_is_space_or_it_is_to_stop(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(status, "POLL_SECONDS", 0.01)
    own, stopping = PartitionStatus(ArchivedPartition("logs", "x", 0), sqlite()), threading.Event()
    assert own.await_space(tmp_path, stopping)
    hold(tmp_path, Hold.INTAKE, "no space")  # what came in is archived all the same
    assert own.await_space(tmp_path, stopping)
    hold(tmp_path, Hold.LAYERS, "no space")
    found: list[bool] = []
    waiting = threading.Thread(target=lambda: found.append(own.await_space(tmp_path, stopping)))
    waiting.start()
    until(lambda: own.progress.message, 5, poll=0.01)
    assert (own.progress.state, own.progress.message, found) == (PartitionState.WAITING, "no space", [])
    release(tmp_path, Hold.LAYERS)
    waiting.join(5)
    assert (own.progress.state, own.progress.message, found) == (PartitionState.ARCHIVING, "", [True])
    hold(tmp_path, Hold.LAYERS, "no space")
    stopping.set()
    assert not own.await_space(tmp_path, stopping)
