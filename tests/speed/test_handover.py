"""A driver that moves hands its topics over and gets them back, wherever its mover dies."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
import sqlalchemy as sa

from sluice.elsewhere.moving import JobNotMoved
from sluice.runtime import detached
from sluice.runtime.settings import Settings
from sluice.speed import handover
from sluice.speed.handover import handed_over
from sluice.storage import schema
from sluice.storage.speed_topics import Place, SpeedTopics
from tests.tasks.database import sqlite

FIRST, SECOND, THIRD = DRIVERS = "speed_layer", "speed_layer-2", "speed_layer-3"
TOPICS = {"logs": FIRST, "shop": FIRST, "beside": SECOND}


class Killed(BaseException):
    """kill -9 of the mover."""


class Obedient(SpeedTopics):
    """Topics whose drivers do at once what their rows say."""

    def move(self, moves: Mapping[str, str]) -> None:
        super().move(moves)
        t = schema.speed_topics
        with self._engine.begin() as connection:
            connection.execute(sa.update(t).values(owner=t.c.driver))


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    """Three drivers, of which the first two run, as processes that sleep."""
    for name, value in {"INSTANCE": "test", "HOME": str(tmp_path), "SPEED__DRIVERS": "3"}.items():
        monkeypatch.setenv(f"SLUICE_{name}", value)
    for driver in (FIRST, SECOND):
        start(tmp_path, driver)
    yield Settings()
    for driver in DRIVERS:
        end(tmp_path, driver)


@pytest.fixture
def table(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> SpeedTopics:
    database = sqlite()
    monkeypatch.setattr(handover, "engine", lambda _: database)
    monkeypatch.setattr(handover, "SpeedTopics", Obedient)
    monkeypatch.setattr(handover, "HAND_OVER_SECONDS", 0.5)
    monkeypatch.setattr(handover, "START_SECONDS", 0.5)
    made = Obedient(database)
    made.move(TOPICS)
    return made


def start(home: Path, driver: str) -> None:
    """Start a driver, which says at once that it counts."""
    argv = [sys.executable, "-c", "import time; time.sleep(600)"]
    record = detached.start(driver, argv, run=home / "run")
    said = {"state": "running", "pid": record.pid, "updated_at": time.time(), "topics": {}}
    (home / "run" / f"{driver}.progress.json").write_text(json.dumps(said))


def end(home: Path, driver: str) -> None:
    if record := detached.read(driver, home / "run"):
        detached.stop(record, 0.0, run=home / "run")


def drivers(table: SpeedTopics) -> dict[str, str]:
    return {topic: place.driver for topic, place in table.places().items()}


def test_the_other_driver_that_runs_counts_the_topics_until_it_has_moved(
    settings: Settings, table: SpeedTopics
) -> None:
    said: list[str] = []
    with handed_over(settings, FIRST, said.append):
        assert table.places() == dict.fromkeys(TOPICS, Place(SECOND, SECOND))
        end(settings.home, FIRST)
        start(settings.home, FIRST)
    assert table.places() == {topic: Place(driver, driver) for topic, driver in TOPICS.items()}
    assert said == [
        "speed_layer: logs goes to speed_layer-2, shop goes to speed_layer-2, while it moves",
        "speed_layer: has its topics again: logs, shop",
    ]


def test_a_topic_that_was_moved_meanwhile_stays_where_it_was_moved_to(
    settings: Settings, table: SpeedTopics
) -> None:
    start(settings.home, THIRD)
    with handed_over(settings, FIRST, print):
        assert drivers(table) == {"logs": THIRD, "shop": SECOND, "beside": SECOND}, "they are shared"
        table.move({"shop": THIRD})
    assert drivers(table) == {"logs": FIRST, "shop": THIRD, "beside": SECOND}


def test_a_mover_that_dies_leaves_the_topics_with_the_other_and_the_next_can_move_it(
    settings: Settings, table: SpeedTopics
) -> None:
    said: list[str] = []
    with suppress(Killed), handed_over(settings, FIRST, said.append):
        raise Killed
    assert drivers(table) == dict.fromkeys(TOPICS, SECOND)
    assert "`sluice topics spread` evens the drivers out" in said[-1]
    with handed_over(settings, FIRST, print):
        pass
    assert drivers(table) == dict.fromkeys(TOPICS, SECOND)


def test_a_driver_that_does_not_count_where_it_went_gets_nothing_back(
    settings: Settings, table: SpeedTopics
) -> None:
    path = settings.home / "run" / f"{FIRST}.progress.json"
    before = path.read_text()
    moves = handed_over(settings, FIRST, print)
    moves.__enter__()
    end(settings.home, FIRST)
    start(settings.home, FIRST)
    path.write_text(before)  # of the process before, which says that it runs
    with pytest.raises(JobNotMoved, match="see `sluice logs speed_layer`"):
        moves.__exit__(None, None, None)
    assert drivers(table) == dict.fromkeys(TOPICS, SECOND)


def test_topics_that_are_not_released_in_time_do_not_hold_the_move_up(
    settings: Settings, table: SpeedTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "SpeedTopics", SpeedTopics)
    said: list[str] = []
    with handed_over(settings, FIRST, said.append):
        assert drivers(table) == dict.fromkeys(TOPICS, SECOND)
    assert said[1] == "speed_layer: has not released logs, shop, and is stopped all the same"


@pytest.mark.parametrize("gone", [FIRST, SECOND])
def test_nothing_is_handed_over_without_a_driver_on_both_sides(
    settings: Settings, table: SpeedTopics, gone: str
) -> None:
    end(settings.home, gone)
    with handed_over(settings, FIRST, print):
        assert drivers(table) == TOPICS
    assert drivers(table) == TOPICS
