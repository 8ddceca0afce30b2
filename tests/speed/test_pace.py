"""Short work keeps its beat; long work is followed by a pause of half its time."""

from __future__ import annotations

import pytest

from sluice.speed.pace import pause_after


@pytest.mark.parametrize(
    ("took", "expected"), [(0.0, 0.6), (0.2, 0.4), (0.4, 0.2), (0.5, 0.25), (3.0, 1.5)]
)  # fmt: skip
def test_a_pause_follows_the_beat_or_the_work(took: float, expected: float) -> None:
    assert pause_after(took, 0.6) == pytest.approx(expected)
