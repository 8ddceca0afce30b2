"""The speed layer against the real stack: tasks are grouped otherwise while it counts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from sluice.settings import Settings
from tests.statistics.speed_driver import SpeedTest, access_lines, until

pytestmark = pytest.mark.stack


@pytest.fixture
def speed(stack: Settings, tmp_path: Path) -> Iterator[SpeedTest]:
    test = SpeedTest(stack, tmp_path)
    yield test
    test.close()


def test_another_grouping_takes_effect_while_it_counts_and_makes_no_version(speed: SpeedTest) -> None:
    status = {"name": "status", "extract": {"delimiter": " ", "index": 8}}
    with speed.running(SLUICE_SPEED__WORKERS="3"):
        speed.append(access_lines(1_000, seed=20))
        until(speed.caught_up)
        for seed, grouping in enumerate(("planned", "kg2", "combine"), 21):
            label = speed.apply(
                "hits", period="1m", dimensions=[status], metrics=["count"], grouping=grouping
            )
            assert label == speed.hits
            speed.append(access_lines(1_000, seed=seed))
            until(speed.caught_up)
            until(partial(groups_by, speed, grouping))  # it is shown after the batch
            shown = speed.progress()["grouping"][speed.hits]
            assert shown["error"] is None
            assert len(shown["hot"]) == 4  # statuses
            assert bool(shown["load"]) == (grouping != "combine")
    speed.check()


def groups_by(speed: SpeedTest, grouping: str) -> bool:
    return bool(speed.progress()["grouping"][speed.hits]["strategy"] == grouping)
