"""An instance whose stores have file systems of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.runtime.settings import Settings
from sluice_lab.chaos import file_systems


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(instance="chaos", home=tmp_path)


@pytest.fixture
def mounted(settings: Settings) -> Iterator[Settings]:
    if why := file_systems.why_none(settings):
        pytest.skip(why)
    file_systems.mount(settings)
    yield settings
    file_systems.unmount(settings)
