"""Several drivers on the real stack: a topic moves while lines come, and each line is counted once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sluice.runtime.settings import Settings
from sluice.speed.writer import COMMITS_APART
from sluice.stack import jobs
from sluice.storage.tables.commits import Commit, CommitLog, FencedOut
from sluice.storage.tables.speed_topics import TopicOwner
from sluice_lab.waiting import until
from tests.speed.speed_driver import SpeedTest
from tests.speed.speed_drivers import FIRST, PATIENCE, SECOND, DriversTest

pytestmark = [pytest.mark.stack, pytest.mark.long, pytest.mark.timeout(1800)]

KILLED = -signal.SIGKILL
OTHER = {FIRST: SECOND, SECOND: FIRST}
#: Who dies, and at which step of a move: before it sees the move (no step), while it releases or takes the
#: topic, or in a batch.
DEATHS = (
    ("old", ""),
    ("old", "topic_stopped"),
    ("old", "topic_released"),
    ("new", ""),
    ("new", "topic_locked"),
    ("new", "topic_taken"),
    ("old", "after_blocks"),
    ("new", "after_blocks"),
    ("old", "after_commit"),
    ("new", "after_commit"),
)


@pytest.fixture
def two(stack: Settings, tmp_path: Path) -> Iterator[DriversTest]:
    test = DriversTest(stack, tmp_path)
    yield test
    test.close()


def test_new_topics_are_shared_and_topics_move_back_and_forth(two: DriversTest) -> None:
    one, other = (test.topic for test in two.topics)
    with two.lines():
        two.start(FIRST)
        two.start(SECOND)
        until(lambda: {two.owner(topic) for topic in (one, other)} == {FIRST, SECOND}, PATIENCE)
        for _ in range(3):
            for topic in (one, other):
                two.move(topic, OTHER[two.table.places()[topic].driver])
        two.move(one, two.table.places()[other].driver)
        driver = two.table.places()[one].driver
        said = jobs.speed_layer(two.topics[0].settings.model_copy(update={"home": two.home}))
        assert {said.topics[topic].driver for topic in (one, other)} == {driver}
        assert two.stop(driver) == 0
        assert two.table.places()[one] == TopicOwner(driver, None), "it released the topic"
        two.start(driver)
        two.wait(one, driver)
    two.check()


def test_either_driver_dies_at_each_step_of_a_move(two: DriversTest) -> None:
    topic, other = (test.topic for test in two.topics)
    two.table.move({topic: FIRST, other: FIRST}, "ann")  # who dies in a batch is the first one
    with two.lines():
        for driver in (FIRST, SECOND):
            two.start(driver)
        two.wait(topic, FIRST)
        for side, point in DEATHS:
            old = two.table.places()[topic].driver
            new = OTHER[old]
            dying = old if side == "old" else new
            if point:
                (two.faults(dying) / point).touch()
            two.table.move({topic: new}, "ann")
            if not point:
                two.drivers[dying].kill()
            assert two.drivers[dying].wait(PATIENCE) == KILLED, (side, point)
            if side == "old":
                two.wait(topic, new)  # it needs no driver that is dead
            two.start(dying)
            two.wait(topic, new)
    two.check()


def test_a_topic_that_another_writer_took_does_not_stop_the_others(two: DriversTest) -> None:
    taken, other = two.topics
    two.table.move({taken.topic: FIRST, other.topic: FIRST}, "ann")
    with two.lines():
        two.start(FIRST)
        for topic in (taken.topic, other.topic):
            two.wait(topic, FIRST)
        _another_writer(taken)
        for topic in (taken.topic, other.topic):
            two.wait(topic, FIRST)
        assert two.drivers[FIRST].poll() is None
        assert "it is tried again" in (two.home / f"{FIRST}.log").read_text()
    two.check()


def test_one_driver_is_handed_all_topics(two: DriversTest) -> None:
    """The setting is lowered while both run, and the second is stopped by whoever supervises it."""
    include = two.home / "root" / "include"
    include.mkdir(parents=True)
    given = (two.settings.root / "include" / "settings.yaml").read_text()
    (include / "settings.yaml").write_text(given.replace("drivers: 1}", "drivers: 2}"))
    one, other = (test.topic for test in two.topics)
    two.table.move({one: FIRST, other: SECOND}, "ann")
    with two.lines():
        for driver in (FIRST, SECOND):
            two.start(driver, drivers=0, SLUICE_ROOT=str(include.parent))
        two.wait(one, FIRST)
        two.wait(other, SECOND)
        (include / "settings.yaml").write_text(given)
        until(lambda: not two.table.places(), PATIENCE)
        assert two.stop(SECOND) == 0
        for test in two.topics:
            before = test.committed()
            until(lambda test=test, before=before: test.committed() > before, PATIENCE)
        assert two.drivers[FIRST].poll() is None
    two.check()


def _another_writer(test: SpeedTest) -> None:
    """Commit nothing after the newest commit, as a second speed layer might."""
    log = CommitLog(test.engine, test.topic)
    while True:
        head, tasks = log.head(), sorted(log.open_versions())
        assert head is not None
        at = head.committed_at + COMMITS_APART
        nothing = dict.fromkeys(("lines", "doubled", "counted", "dead"), 0)
        with suppress(FencedOut):  # the driver was faster
            log.append(Commit(head.seq + 1, "faster", head.topic_id, at, head.end, head.end, tasks, nothing))
            return
