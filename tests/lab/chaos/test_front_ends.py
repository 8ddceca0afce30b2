"""Emulated front-ends write whole lines of their days, as many as they say."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from sluice_lab.chaos.front_ends import DAYS, HOSTS, NETWORKS, EmulatedFrontEnds, log_file
from sluice_lab.waiting import until

pytestmark = pytest.mark.slow


def test_every_line_that_is_counted_is_in_the_file_of_its_day(tmp_path: Path) -> None:
    with EmulatedFrontEnds(tmp_path, rate=2_000, seed=1) as front_ends:
        until(lambda: front_ends.written > 1_500, 60)
    files = [(day, log_file(tmp_path, host, day)) for host in HOSTS for day in DAYS]
    lines = [(day, line) for day, file in files if file.exists() for line in file.read_text().splitlines()]
    assert len(lines) == front_ends.written
    assert all(day.strftime("%d/%b/%Y") in line for day, line in lines)
    assert len({line.split(".")[2] for _, line in lines}) <= NETWORKS
    assert not front_ends.failed


def test_it_keeps_to_its_rate(tmp_path: Path) -> None:
    began = time.monotonic()
    with EmulatedFrontEnds(tmp_path, rate=400, seed=1) as front_ends:
        time.sleep(2)
    assert front_ends.written <= 1.5 * 400 * (time.monotonic() - began)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "frontends").write_text("no folder")
    with EmulatedFrontEnds(tmp_path, rate=100, seed=1) as front_ends:
        until(lambda: front_ends.failed, 20)
    assert "frontends" in front_ends.failed
