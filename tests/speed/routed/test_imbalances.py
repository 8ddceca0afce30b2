"""The last hour's imbalance, kept by the minute."""

from __future__ import annotations

import pytest

from sluice.speed.routed.imbalances import HOUR, MINUTE, Imbalances


def test_batches_count_by_their_tuples() -> None:
    found = Imbalances()
    assert found.shown() is None
    for now, tuples, relative in ((0.0, 100, 1.0), (1.0, 300, 0.2), (MINUTE, 100, 0.4)):
        found.add(now, tuples, relative)
    assert found.shown() == {"last": 0.4, "hour": pytest.approx(200 / 500), "worst": 1.0}


def test_after_an_hour_a_batch_is_forgotten_and_there_is_little_to_remember() -> None:
    found = Imbalances()
    found.add(0.0, 1_000, 9.0)
    for second in range(1, int(HOUR + 2 * MINUTE)):
        found.add(float(second), 10, 0.5)
    assert found.shown() == {"last": 0.5, "hour": pytest.approx(0.5), "worst": 0.5}
    assert len(found.minutes) <= HOUR / MINUTE + 1
