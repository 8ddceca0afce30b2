"""Each store can have a file system of its own, where the machine allows it."""

from __future__ import annotations

import os
import time

import pytest

from sluice.runtime.settings import Settings
from sluice.stack import disks
from sluice_lab.chaos import file_systems, slow_disk
from sluice_lab.chaos.file_systems import FOLDERS


def test_stores_that_share_a_file_system_are_not_filled(settings: Settings) -> None:
    assert file_systems.why_not(settings)


def test_only_root_may_mount(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 7)
    assert file_systems.why_none(settings) == "only root may mount file systems"
    assert file_systems.why_not(settings) == "only root may mount file systems"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "")
    assert file_systems.why_none(settings).startswith("there is no mkfs.ext4 (Debian:")


@pytest.mark.slow
def test_each_store_has_an_empty_file_system_of_its_own(mounted: Settings) -> None:
    assert file_systems.why_not(mounted) == ""
    found = {disk.folders for disk in disks.look(mounted)}
    assert found == {("home",), *((folder,) for folder in FOLDERS.values())}
    assert [list((mounted.home / folder).iterdir()) for folder in FOLDERS.values()] == [[]] * len(FOLDERS)


@pytest.mark.slow
def test_one_that_a_killed_run_left_frozen_takes_writes_again(mounted: Settings) -> None:
    folder = mounted.home / FOLDERS["kafka"]
    slow_disk._control(folder, slow_disk.FIFREEZE)
    file_systems.wake(mounted)
    begun = time.monotonic()
    (folder / "file").write_text("x")
    assert time.monotonic() - begun < 5
