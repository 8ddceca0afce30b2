"""A topic's batches follow each other at once while lines wait, and rest when all are counted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sluice.runtime.holds import Hold, hold, release
from sluice.runtime.settings import Settings
from sluice.speed import streaming
from sluice.speed.batch_size import LARGEST_RECORD
from sluice.speed.progress import SpeedProgress
from sluice.speed.streaming import TopicStream
from sluice.stack.progress import CountingState
from sluice_lab.waiting import until
from tests.speed.test_take_up import NoSpark

RECORDS = 100


class Counted:
    """What stands for batches here: 100 records wait, and counting them only moves the position."""

    position: Mapping[str, int] = {"0": 0}
    ends_of_batches: list[int]

    def __init__(self, *_: Any) -> None:
        pass

    def open(self) -> None:
        pass

    def take_up(self) -> None:
        pass

    def ends(self) -> dict[str, int]:
        return {"0": RECORDS}

    def waiting(self, end: Mapping[str, int]) -> dict[str, int]:
        return {"0": end["0"] - self.position["0"]}

    def after(self, records: Mapping[str, int], ends: Mapping[str, int]) -> dict[str, int]:
        return {"0": self.position["0"] + records["0"]}

    def count(self, end: Mapping[str, int]) -> Mapping[str, int]:
        counts = {"bytes": self.waiting(end)["0"] * LARGEST_RECORD}
        self.ends_of_batches.append(end["0"])
        self.position = end
        return counts

    def close(self, seconds: float) -> None:
        pass


def test_a_batch_that_had_to_leave_lines_is_followed_by_the_next_one_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ends, rests = list[int](), list[int]()

    def pause(took: float, beat: float) -> float:
        rests.append(ends[-1])
        return 0.0

    monkeypatch.setattr(Counted, "ends_of_batches", ends, raising=False)
    monkeypatch.setattr(streaming, "MicroBatch", Counted)
    monkeypatch.setattr(streaming, "pause_after", pause)
    settings = Settings(home=tmp_path, speed={"batch_bytes": 32 * LARGEST_RECORD})
    progress: Any = SpeedProgress(tmp_path / "progress.json")
    stream = TopicStream(NoSpark(), settings, "logs", progress)
    stream.start()
    until(lambda: rests, poll=0.01)
    stream.ask_to_stop()
    stream.join(5)
    assert ends == [32, 64, 96, 100]
    assert rests == [100]


def test_nothing_is_counted_while_a_disk_is_nearly_full(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ends = list[int]()
    monkeypatch.setattr(Counted, "ends_of_batches", ends, raising=False)
    monkeypatch.setattr(streaming, "MicroBatch", Counted)
    monkeypatch.setattr(streaming, "POLL_SECONDS", 0.01)
    hold(tmp_path, Hold.LAYERS, "no space")
    progress = SpeedProgress(tmp_path / "progress.json")
    stream = TopicStream(NoSpark(), Settings(home=tmp_path), "logs", progress)

    def state() -> CountingState:
        return progress.topics["logs"].state if progress.topics else CountingState.STARTING

    stream.start()
    until(lambda: state() == CountingState.HELD, poll=0.01)
    assert ends == []
    release(tmp_path, Hold.LAYERS)
    until(lambda: ends, poll=0.01)
    assert state() == CountingState.COUNTING
    hold(tmp_path, Hold.LAYERS, "no space")
    until(lambda: state() == CountingState.HELD, poll=0.01)
    stream.ask_to_stop()
    stream.join(5)
    assert stream.ended
