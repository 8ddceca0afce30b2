"""How many archivers there are: the number follows the lag, and does not swing."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.archive import scaling
from sluice.archive.scaling import GROW_AFTER_SECONDS, SHRINK_AFTER_SECONDS, Follows, Sizing
from sluice.runtime.sections import Archive
from sluice.runtime.settings import Settings

STEP = 10.0


def run(behind: list[float | None], most: int = 4, members: int = 1) -> list[int]:
    """The numbers of members, deciding every ten seconds."""
    sizing = Sizing(most, close=30.0)
    found = []
    for number, seconds in enumerate(behind):
        members = sizing.wanted(1000.0 + STEP * number, members, seconds)
        found.append(members)
    return found


@given(st.lists(st.none() | st.floats(0, 500), max_size=200), st.integers(1, 6))
def test_the_number_stays_within_its_limits_and_changes_by_one(behind: list[float | None], most: int) -> None:
    numbers = [1, *run(behind, most)]
    assert all(1 <= number <= most for number in numbers)
    assert all(abs(after - before) <= 1 for before, after in pairwise(numbers))


@given(st.lists(st.none() | st.floats(0, 500), max_size=200))
def test_two_steps_up_are_as_far_apart_as_the_lag_must_last(behind: list[float | None]) -> None:
    numbers = [1, *run(behind)]
    ups = [at for at, (before, after) in enumerate(pairwise(numbers)) if after > before]
    assert all(later - earlier > GROW_AFTER_SECONDS / STEP for earlier, later in pairwise(ups))


def test_an_archive_that_stays_behind_gets_all_members_and_one_that_keeps_up_loses_them() -> None:
    up = run([100.0] * 100)
    assert up[-1] == 4
    down = run([5.0] * 200, members=4)
    assert down[-1] == 1
    assert down.index(3) >= SHRINK_AFTER_SECONDS / STEP


def test_a_burst_a_lag_between_the_limits_and_an_unknown_one_change_nothing() -> None:
    assert set(run([100.0, 100.0, 100.0, 5.0] * 30)) == {1}
    assert set(run([45.0] * 300, members=3)) == {3}
    assert set(run([None] * 300, members=3)) == {3}


def test_a_setting_that_was_lowered_takes_members_away() -> None:
    assert run([None] * 3, most=2, members=4) == [3, 2, 2]


@pytest.mark.parametrize(("cores", "setting", "most"), [(1, 0, 1), (2, 0, 1), (8, 0, 4), (2, 3, 3)])
def test_two_cores_stay_with_one_archiver_unless_the_setting_says_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int, setting: int, most: int
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    settings = Settings(instance="test", home=tmp_path, archive=Archive(members=setting))
    assert scaling.most(settings) == most


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "run").mkdir()
    return Settings(instance="test", home=tmp_path, archive=Archive(members=4))


def watch_says(
    settings: Settings, seconds: float | None, age: float = 0.0, other: float | None = 0.0
) -> None:
    lag: dict[str, Any] = {"logs": {"archive": {"records": 9, "seconds": seconds}}}
    lag["shop"] = {"archive": {"records": 0 if other == 0 else 5, "seconds": other}}
    look = {"updated_at": time.time() - age, "lag": lag}
    (settings.home / "run" / "watch.progress.json").write_text(json.dumps(look))


def test_the_watch_says_how_far_the_archive_is_behind(settings: Settings) -> None:
    assert scaling.behind(settings) is None
    watch_says(settings, 70.0)
    assert scaling.behind(settings) == 70.0
    watch_says(settings, 70.0, age=300)
    assert scaling.behind(settings) is None


def test_a_topic_of_which_nobody_knows_how_long_it_waits_is_not_taken_for_one_that_keeps_up(
    settings: Settings,
) -> None:
    watch_says(settings, None)
    assert scaling.behind(settings) is None
    watch_says(settings, 20.0, other=None)
    assert scaling.behind(settings) is None
    watch_says(settings, 70.0, other=None)
    assert scaling.behind(settings) == 70.0, "it is behind by that much at least"


@pytest.mark.parametrize("oldest", [100.0, 300.0])
def test_files_that_may_be_old_are_no_sign_of_falling_behind(tmp_path: Path, oldest: float) -> None:
    (tmp_path / "run").mkdir()
    limits = Archive(members=4, max_age_seconds=oldest)
    settings = Settings(instance="test", home=tmp_path, archive=limits)
    topic = {"state": "archiving", "partitions": {str(n): {} for n in range(4)}}
    document = {"updated_at": time.time(), "topics": {"logs": topic}}
    (tmp_path / "run" / "archiver.progress.json").write_text(json.dumps(document))

    def after(seconds: float, members: int) -> int:
        watch_says(settings, seconds)
        follows = Follows(settings)
        for step in range(60):
            members = follows(1000 + STEP * step, members)
        return members

    assert after(oldest + 5, 1) == 1
    assert after(oldest + 5, 2) == 1
    assert after(oldest + 100, 1) == 4


def test_there_are_no_more_archivers_than_partitions(settings: Settings) -> None:
    def has(partitions: int) -> None:
        topic = {"state": "archiving", "partitions": {str(n): {} for n in range(partitions)}}
        document = {"updated_at": time.time(), "topics": {"logs": topic}}
        (settings.home / "run" / "archiver.progress.json").write_text(json.dumps(document))

    watch_says(settings, 500.0)
    has(2)
    follows, members = Follows(settings), 1
    for step in range(60):
        members = follows(1000 + STEP * step, members)
    assert members == 2


def test_a_rebalance_or_an_outage_that_hides_partitions_takes_no_member_away() -> None:
    sizing, members = Sizing(4, close=30.0), 4
    for step in range(20):
        sizing.useful = 1 if step % 10 in (3, 4, 5) else 4
        members = sizing.wanted(1000 + STEP * step, members, 200.0)
        assert members == 4


def test_a_member_that_can_have_no_partition_goes_after_a_while() -> None:
    sizing, members = Sizing(4, close=30.0, useful=2), 3
    numbers = [members := sizing.wanted(1000 + STEP * step, members, 200.0) for step in range(60)]
    assert (numbers[0], numbers[-1]) == (3, 2)
    assert numbers.index(2) >= SHRINK_AFTER_SECONDS / STEP
