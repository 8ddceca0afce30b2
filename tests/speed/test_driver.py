"""A driver follows its topics: it starts, stops and tries again, each for itself."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from sluice.runtime.settings import Settings
from sluice.speed import driver, own_topics, streaming
from sluice.speed.own_topics import Named, OwnTopics
from sluice.speed.progress import SpeedProgress
from sluice.storage.tables.commits import FencedOut
from sluice_lab.waiting import until
from tests.speed.test_take_up import NoSpark
from tests.tasks.database import sqlite


class Batches:
    """What stands for batches here: nothing waits. A topic in `held` is another writer's."""

    opened: Counter[str]
    closed: Counter[str]
    held: set[str]

    def __init__(self, settings: Settings, topic: str, *_: Any) -> None:
        self._topic = topic
        self.position: dict[str, int] = {}

    def open(self) -> None:
        self.opened[self._topic] += 1
        if self._topic in self.held:
            raise FencedOut(self._topic, "it holds the topic's lock")

    def ends(self) -> dict[str, int]:
        return {}

    def waiting(self, end: dict[str, int]) -> dict[str, int]:
        return {}

    def take_up(self) -> None:
        pass

    def close(self, seconds: float) -> None:
        self.closed[self._topic] += 1


class Wanted:
    """The topics that a test wants the driver to count."""

    def __init__(self, *topics: str, alone: bool = False) -> None:
        self.topics, self.alone = set(topics), alone

    def __call__(self, counted: Collection[str]) -> Collection[str]:
        return self.topics


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> type[Batches]:
    for name in ("opened", "closed"):
        monkeypatch.setattr(Batches, name, Counter(), raising=False)
    monkeypatch.setattr(Batches, "held", set(), raising=False)
    monkeypatch.setattr(streaming, "MicroBatch", Batches)
    monkeypatch.setattr(driver, "POLL_SECONDS", 0.01)
    return Batches


def shown(tmp_path: Path) -> dict[str, Any]:
    """The topics in the driver's progress file."""
    return dict(json.loads((tmp_path / "speed_layer-2.progress.json").read_text())["topics"])


def run(tmp_path: Path, own: Any, script: Callable[[], None]) -> dict[str, Any]:
    """Run a driver while the script runs; returns the topics that it shows then."""
    progress: Any = SpeedProgress(tmp_path / "speed_layer-2.progress.json", "speed_layer-2")
    stopping, died = threading.Event(), list[BaseException]()

    def count() -> None:
        try:
            driver.run(NoSpark(), Settings(home=tmp_path), progress, own, stopping)
        except FencedOut as error:
            died.append(error)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        script()
        said = shown(tmp_path)
    finally:
        stopping.set()
        thread.join()
    if died:
        raise died[0]
    return said


def test_topics_come_and_go_and_the_others_go_on(batches: type[Batches], tmp_path: Path) -> None:
    own = Wanted("logs", "shop")

    def script() -> None:
        until(lambda: batches.opened == {"logs": 1, "shop": 1})
        own.topics = {"logs"}
        until(lambda: batches.closed["shop"] == 1)
        own.topics = {"logs", "shop"}
        until(lambda: batches.opened["shop"] == 2)
        own.topics = {"logs"}
        until(lambda: batches.closed["shop"] == 2)
        until(lambda: "shop" not in shown(tmp_path))
        assert batches.opened["logs"] == 1

    assert run(tmp_path, own, script)["logs"]["state"] == "counting"
    assert batches.closed == {"logs": 1, "shop": 2}


def test_a_topic_that_another_driver_holds_is_tried_again(batches: type[Batches], tmp_path: Path) -> None:
    batches.held.add("shop")

    def script() -> None:
        until(lambda: batches.opened["shop"] > 3)
        assert batches.closed["logs"] == 0
        batches.held.clear()
        until(lambda: batches.closed["shop"] < batches.opened["shop"])

    said = run(tmp_path, Wanted("logs", "shop"), script)
    assert not said["shop"]["errors"], "to wait is no failure"


def test_the_only_driver_stops_if_there_is_another(batches: type[Batches], tmp_path: Path) -> None:
    batches.held.add("shop")
    with pytest.raises(FencedOut, match="shop"):
        run(tmp_path, Named(["logs", "shop"]), lambda: until(lambda: batches.closed["logs"]) and None)
    assert batches.closed["logs"] == 1
    (error,) = shown(tmp_path)["shop"]["errors"]
    assert error["message"].startswith("FencedOut: another speed layer counts")


@pytest.mark.parametrize("moves", [False, True])
def test_the_only_driver_waits_for_a_topic_if_a_silent_host_may_have_it(
    moves: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = sqlite()
    monkeypatch.setattr(own_topics, "engine", lambda _: database)
    settings = Settings(instance="test", home=tmp_path)
    own = OwnTopics(settings, "speed_layer", lambda: ["speed_layer"], lambda: moves)
    assert list(own(())) == ["logs"]
    assert own.only
    assert own.alone is not moves
