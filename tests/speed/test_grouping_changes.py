"""The speed layer on the real stack: the grouping of tasks changes while it counts."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sluice.runtime.settings import Settings
from sluice.tasks import GroupingSpec, TopicSpec
from sluice.tasks.topics import TopicStore
from sluice_lab.waiting import SECONDS, until
from tests.speed.speed_driver import SpeedTest, access_lines

pytestmark = pytest.mark.stack

HITS: dict[str, Any] = {
    "period": "1m",
    "dimensions": [{"name": "status", "extract": {"delimiter": " ", "index": 8}}],
    "metrics": ["count"],
}


@pytest.fixture
def speed(stack: Settings, tmp_path: Path) -> Iterator[SpeedTest]:
    test = SpeedTest(stack, tmp_path)
    yield test
    test.close()


def test_routed_lines_count_once_despite_doubles_a_kill_and_other_groupings(speed: SpeedTest) -> None:
    """The topic's grouping applies, then the task's, which makes no new version.

    A batch in which lines come twice is distributed again and is still routed.
    """
    planned = TopicSpec(name=speed.topic, grouping=GroupingSpec(strategy="planned"))
    TopicStore(speed.engine).apply(planned, "test")
    speed.append(access_lines(2_000, seed=30))
    first = speed.start(fault="after_blocks:2", SLUICE_SPEED__WORKERS="3")
    until(lambda: speed.projected() == 1)
    both = access_lines(300, seed=31)
    at = speed.append(both)
    for partition in (0, 3):
        speed.source.send(both, at, partition)
    assert first.wait(SECONDS) == -signal.SIGKILL
    with speed.running(SLUICE_SPEED__WORKERS="3"):
        until(speed.caught_up)
        speed.check()
        for seed, grouping in enumerate(("planned", "kg2", "combine"), 32):
            if grouping != "planned":
                label = speed.apply("hits", **HITS, grouping=grouping)
                assert label == speed.hits
            speed.append(access_lines(1_000, seed=seed))
            until(speed.caught_up)
            until(partial(groups_by, speed, grouping))  # it is shown after the batch
            shown = speed.progress()["grouping"]
            assert shown[speed.bytes]["strategy"] == "planned"
            assert shown[speed.bytes]["load"]
            assert shown[speed.hits]["error"] is None
            assert len(shown[speed.hits]["hot"]) == 4  # statuses
            assert bool(shown[speed.hits]["load"]) == (grouping != "combine")
    speed.check()
    assert speed.total("doubled") == 600


def groups_by(speed: SpeedTest, grouping: str) -> bool:
    return bool(speed.progress()["grouping"][speed.hits]["strategy"] == grouping)
