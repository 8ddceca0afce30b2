"""Topics are evened out over drivers by few moves, and a move to what does not exist is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.runtime.settings import Settings
from sluice.speed import topic_moves
from sluice.speed.topic_moves import evened
from tests.examples import examples

DRIVERS = ("speed_layer", "speed_layer-2", "speed_layer-3")


def after(placed: dict[str, str], drivers: tuple[str, ...], loads: dict[str, float]) -> dict[str, str]:
    found = evened(placed, drivers, loads)
    assert all(each.source == placed[each.unit] for each in found)
    return placed | {each.unit: each.target for each in found}


def test_what_one_driver_has_is_shared_by_load() -> None:
    placed = dict.fromkeys(("big", "half", "small"), "speed_layer")
    loads = {"big": 1000.0, "half": 500.0, "small": 480.0}
    found = after(placed, DRIVERS[:2], loads)
    assert found["half"] == found["small"] != found["big"]
    assert not evened(found, DRIVERS[:2], loads), "once is enough"


def test_drivers_that_are_about_equal_keep_their_topics() -> None:
    placed = {"one": "speed_layer", "two": "speed_layer-2"}
    assert not evened(placed, DRIVERS[:2], {"one": 100.0, "two": 95.0})
    assert not evened(placed, DRIVERS[:2], {})


def test_topics_without_lines_are_shared_by_their_number() -> None:
    placed = dict.fromkeys("abcd", "speed_layer")
    assert sorted(Counter(after(placed, DRIVERS[:2], {}).values()).values()) == [2, 2]


def test_without_a_driver_that_runs_nothing_moves() -> None:
    assert not evened({"one": "speed_layer"}, (), {"one": 1.0})


@examples(40)
@given(
    st.lists(st.tuples(st.sampled_from(DRIVERS), st.floats(0, 1e8)), max_size=8),
    st.sets(st.sampled_from(DRIVERS), min_size=1),
)
def test_topics_leave_drivers_that_do_not_run_and_no_driver_gets_busier_than_the_busiest(
    given_: list[tuple[str, float]], running: set[str]
) -> None:
    placed = {f"t{n}": driver for n, (driver, _) in enumerate(given_)}
    loads = {f"t{n}": load for n, (_, load) in enumerate(given_)}
    found = after(placed, tuple(sorted(running)), loads)
    assert set(found.values()) <= running
    if set(placed.values()) <= running:
        assert busiest(found, loads) <= busiest(placed, loads)


def busiest(placed: dict[str, str], loads: dict[str, float]) -> float:
    sums: Counter[str] = Counter()
    for topic, driver in placed.items():
        sums[driver] += loads[topic]  # type: ignore[assignment]
    return max(sums.values(), default=0)


def test_with_one_driver_no_topic_moves(tmp_path: Path) -> None:
    one = Settings(instance="test", home=tmp_path)
    with pytest.raises(topic_moves.OneDriver, match=r"set speed\.drivers"):
        topic_moves.spread(one)
    with pytest.raises(topic_moves.OneDriver):
        topic_moves.move(one, "logs", "speed_layer", "ann")


def test_a_driver_that_does_not_exist_is_answered_with_those_that_do(tmp_path: Path) -> None:
    two = Settings(instance="test", home=tmp_path, speed={"drivers": 2})
    with pytest.raises(topic_moves.UnknownDriver, match="the drivers are speed_layer, speed_layer-2"):
        topic_moves.move(two, "logs", "speed_layer-3", "ann")
