from __future__ import annotations

import re
from collections import Counter
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from sluice.traffic import edu
from sluice.traffic.generate import batches, write

COMBINED = re.compile(
    rb"10\.0\.\d+\.\d+ - - \[(\d\d/Jan/2026):\d\d:\d\d:\d\d \+0000\] "
    rb'"(GET|POST|HEAD) /www\.site(\d{5})\.example/page\d+ HTTP/1\.1" (\d{3}) (\d+|-) "[^"]*" "[^"]*"'
)


def test_the_frequencies_are_those_of_paper_000() -> None:
    """The expectation at 32 M visits against paper 000, 3.3.1 and table 1."""
    visits = edu.frequencies() * 32_000_000
    assert len(visits) == 12_078
    assert visits.sum() == pytest.approx(32_000_000)
    assert visits[0] / 32e6 == pytest.approx(0.0742)
    assert visits[:10].sum() / 32e6 == pytest.approx(0.125)
    assert (visits < 1_000).mean() == pytest.approx(0.75, abs=5e-4)
    assert (visits > 10_000).mean() == pytest.approx(0.0439, abs=5e-5)


def test_the_frequencies_fall_and_every_key_occurs() -> None:
    frequencies = edu.frequencies()
    assert (np.diff(frequencies) <= 0).all()
    assert frequencies[-1] * 32_000_000 > 5


@pytest.mark.slow
def test_a_log_is_combined_format_in_order_of_time() -> None:
    lines = b"".join(batches(5_000, seed=3, days=4, start=date(2026, 1, 30))).split(b"\n")
    assert lines.pop() == b""
    assert len(lines) == 5_000
    days = [re.search(rb"\[(\d\d/\w+/\d+)", line)[1] for line in lines]  # type: ignore[index]
    assert list(dict.fromkeys(days)) == [b"30/Jan/2026", b"31/Jan/2026", b"01/Feb/2026", b"02/Feb/2026"]


@pytest.mark.slow
def test_a_sample_follows_the_frequencies() -> None:
    matches = [COMBINED.fullmatch(line) for line in b"".join(batches(100_000)).splitlines()]
    assert all(matches)
    keys = Counter(int(m[3]) for m in matches if m)
    assert keys[1] / 100_000 == pytest.approx(0.0742, abs=0.004)
    assert sum(keys[k] for k in range(1, 11)) / 100_000 == pytest.approx(0.125, abs=0.005)
    sizes = Counter(m[5] == b"-" for m in matches if m)
    assert 0.05 < sizes[True] / 100_000 < 0.25  # 304 and HEAD have no body


@pytest.mark.slow
def test_the_same_seed_makes_the_same_log(tmp_path: Path) -> None:
    write(tmp_path / "a", 1_000, seed=5)
    write(tmp_path / "b", 1_000, seed=5)
    write(tmp_path / "c", 1_000, seed=6)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert (tmp_path / "a").read_bytes() != (tmp_path / "c").read_bytes()


@pytest.mark.parametrize(("lines", "days"), [(0, 1), (1, 0)])
def test_nothing_to_generate(lines: int, days: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        next(batches(lines, days=days))
