"""Which driver should count a topic, in a database of its own; and who holds it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.runtime.settings import Settings
from sluice.storage.tables.commits import Commit, CommitLog, TopicClaim
from sluice.storage.tables.speed_topics import LOAD_TIME, SpeedTopics, TopicOwner, least_loaded
from tests.speed.speed_driver import SpeedTest

DRIVERS = ["one", "two", "three"]


@pytest.fixture
def test(stack: Settings, tmp_path: Path) -> Iterator[SpeedTest]:
    made = SpeedTest(stack, tmp_path)
    yield made
    made.close()


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from(DRIVERS)),
    st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0, 1e6)),
)
def test_each_new_topic_gets_a_driver_and_the_others_stay(
    placed: dict[str, str], loads: dict[str, float]
) -> None:
    found = least_loaded("abcdefgh", DRIVERS, placed, loads)
    assert found.keys() == set("abcdefgh") - placed.keys()


def test_the_least_loaded_driver_gets_a_new_topic_and_of_equal_ones_that_with_the_fewest() -> None:
    placed = {"a": "one", "b": "two"}
    assert least_loaded("abc", ["one", "two"], placed, {"a": 5.0, "b": 3.0}) == {"c": "two"}
    many = least_loaded("abcdefg", DRIVERS, {}, {})
    assert sorted(Counter(many.values()).values()) == [2, 2, 3]
    heavy = least_loaded("abcd", ["one", "two"], {}, {"d": 9.0, "a": 4.0, "b": 4.0})
    assert heavy["a"] == heavy["b"] != heavy["d"]


@pytest.mark.stack
def test_topics_keep_their_drivers_until_there_are_others(test: SpeedTest) -> None:
    table = SpeedTopics(test.engine)
    assert table.settle(["a", "b"], ["one"]) == {}, "one driver needs no rows"
    assert table.settle(["a", "b"], DRIVERS, dict.fromkeys("ab", "one")) == {
        "a": TopicOwner("one", "one"),
        "b": TopicOwner("one", "one"),
    }
    found = table.settle(["a", "b", "c"], DRIVERS)
    assert {name: each.driver for name, each in found.items()} == {"a": "one", "b": "one", "c": "two"}
    table.move({"b": "three"}, "ann")
    assert table.settle(["a", "b"], DRIVERS)["b"].driver == "three"
    assert table.settle(["a", "b"], ["one", "two"])["b"].driver == "two", "the third is gone"
    assert table.places().keys() == {"a", "b"}


@pytest.mark.stack
def test_one_driver_gets_all_topics_and_waits_for_those_that_another_holds(test: SpeedTest) -> None:
    table = SpeedTopics(test.engine)
    table.move({"a": "one", "b": "two", "c": "two"}, "ann")
    claim = TopicClaim(test.engine, "b", "two")
    claim.take()
    assert table.settle(["a", "b", "c"], ["one"]) == {"b": TopicOwner("one", "two")}
    claim.release()
    assert table.settle(["a", "b", "c"], ["one"]) == {}


@pytest.mark.stack
def test_the_row_says_who_took_the_topic_until_it_is_released(test: SpeedTest) -> None:
    table = SpeedTopics(test.engine)
    table.move({test.topic: "two"}, "ann")
    old, new = (TopicClaim(test.engine, test.topic, driver) for driver in ("one", "two"))
    old.take()
    assert table.places()[test.topic] == TopicOwner("two", "one")
    old.release()
    assert table.places()[test.topic] == TopicOwner("two", None)
    new.take()
    old.release()  # for the second time
    assert table.places()[test.topic] == TopicOwner("two", "two")
    new.release()


@pytest.mark.stack
def test_a_load_is_bytes_a_second_in_the_last_minutes(test: SpeedTest) -> None:
    now = datetime.now(UTC)
    log = CommitLog(test.engine, test.topic)
    times = [now - LOAD_TIME - timedelta(minutes=1), now - LOAD_TIME / 2, now]
    for seq, (at, size) in enumerate(zip(times, (999, 100, 200), strict=True), 1):
        counts = {"lines": 1, "doubled": 0, "counted": 1, "dead": 0, "bytes": size}
        log.append(Commit(seq, "t", "id", at, {}, {"0": seq}, [], counts))
    found = SpeedTopics(test.engine).loads([test.topic, "other"])
    assert found == {test.topic: 300 / LOAD_TIME.total_seconds(), "other": 0.0}
