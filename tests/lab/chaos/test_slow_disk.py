"""A slow disk: writes to its file system take seconds, and everything is as before afterwards."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from sluice.runtime.settings import Settings
from sluice_lab.chaos import slow_disk
from sluice_lab.chaos.file_systems import FOLDERS

pytestmark = pytest.mark.slow

WRITES = 4


def synced(path: Path) -> float:
    """Writes to the file, each to the disk; returns how many seconds that took."""
    begun = time.monotonic()
    with path.open("ab", buffering=0) as file:
        for _ in range(WRITES):
            file.write(b"x" * 4096)
            os.fsync(file.fileno())
            time.sleep(slow_disk.PERIOD_SECONDS / WRITES)  # so they meet more than one period
    return time.monotonic() - begun - slow_disk.PERIOD_SECONDS


def test_writes_wait_while_it_is_slow_and_no_longer(mounted: Settings) -> None:
    folder = mounted.home / FOLDERS["kafka"]
    with slow_disk.slow(folder):
        time.sleep(slow_disk.FROZEN_SECONDS / 2)  # it is frozen now
        assert synced(folder / "file") > slow_disk.FROZEN_SECONDS / 4
    synced(folder / "file")  # it would never return
    assert (folder / "file").stat().st_size == 2 * WRITES * 4096


def test_it_takes_writes_again_also_if_the_run_is_interrupted(mounted: Settings) -> None:
    folder = mounted.home / FOLDERS["kafka"]

    def interrupted() -> None:
        with slow_disk.slow(folder):
            time.sleep(slow_disk.FROZEN_SECONDS / 2)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    synced(folder / "file")  # it would never return
    slow_disk.thaw(folder)  # nothing happens


def test_a_folder_that_cannot_be_frozen_is_an_error() -> None:
    with pytest.raises(OSError, match="/proc"), slow_disk.slow(Path("/proc")):
        pass
