"""Short work keeps its beat; longer work is followed by a pause that grows with it, up to a limit."""

from __future__ import annotations

import pytest

from sluice.speed.pace import pause_after


@pytest.mark.parametrize(
    ("took", "expected"), [(0.0, 0.6), (0.1, 0.5), (0.2, 0.5), (0.4, 1.0), (0.8, 2.0), (3.0, 2.0)]
)  # fmt: skip
def test_a_pause_follows_the_beat_or_the_work(took: float, expected: float) -> None:
    assert pause_after(took, 0.6) == pytest.approx(expected)
