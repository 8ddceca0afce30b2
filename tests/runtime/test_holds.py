"""A hold is a file that says why; a full disk can take it, and it can be copied to another host."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from sluice.runtime import holds
from sluice.runtime.holds import OVER, Hold, file_of, hold, reason, release, wait
from sluice_lab.waiting import until


def test_nothing_is_held_until_it_is_said_and_after_it_was_released(tmp_path: Path) -> None:
    assert {reason(tmp_path, what) for what in Hold} == {""}
    release(tmp_path, Hold.INTAKE)
    hold(tmp_path, Hold.INTAKE, "no space")
    assert reason(tmp_path, Hold.INTAKE) == "no space"
    assert reason(tmp_path, Hold.LAYERS) == ""
    release(tmp_path, Hold.INTAKE)
    assert reason(tmp_path, Hold.INTAKE) == ""


def test_a_full_disk_holds_although_it_takes_no_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, _: str) -> None:
        path.touch()
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "write_text", full)
    hold(tmp_path, Hold.LAYERS, "no space")
    assert reason(tmp_path, Hold.LAYERS) == "a disk is full"


def test_a_copy_on_another_host_can_say_that_it_is_over(tmp_path: Path) -> None:
    file_of(tmp_path, Hold.LAYERS).write_text(OVER)
    assert reason(tmp_path, Hold.LAYERS) == ""


def test_who_waits_goes_on_and_says_both_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holds, "POLL_SECONDS", 0.01)
    said: list[str] = []
    wait(tmp_path, Hold.LAYERS, said.append)
    assert said == []
    hold(tmp_path, Hold.LAYERS, "no space")
    waiting = threading.Thread(target=wait, args=(tmp_path, Hold.LAYERS, said.append))
    waiting.start()
    until(lambda: said, 5, poll=0.01)
    release(tmp_path, Hold.LAYERS)
    waiting.join(5)
    assert said == ["layers wait for space: no space", "layers go on"]
