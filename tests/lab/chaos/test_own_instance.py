"""Chaos begins with an empty instance of its own, and refuses one with data of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.runtime.settings import Settings
from sluice_lab.chaos.own_instance import INSTANCE, OWNED, ChaosRuns, OthersData, alone, begin


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(instance=INSTANCE, home=tmp_path / INSTANCE)


def test_what_the_last_run_left_goes(settings: Settings) -> None:
    begin(settings)
    (settings.home / "data").mkdir()
    begin(settings)
    assert [path.name for path in settings.home.iterdir()] == [OWNED]


def test_data_of_others_is_refused_and_stays(settings: Settings) -> None:
    (settings.home / "data").mkdir(parents=True)
    with pytest.raises(OthersData, match=r"instance 'chaos' has data .* `sluice --instance chaos reset`"):
        begin(settings)
    assert (settings.home / "data").is_dir()


def test_a_second_run_at_the_same_time_is_refused(settings: Settings) -> None:
    with alone(settings), pytest.raises(ChaosRuns, match="another"), alone(settings):
        pass
    with alone(settings):
        pass
