from __future__ import annotations

from sluice.runtime.backoff import Backoff


def test_pauses_double_up_to_the_longest_and_begin_again_after_a_reset() -> None:
    backoff = Backoff(1.0, 5.0)
    assert [backoff.pause() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    backoff.reset()
    assert backoff.pause() == 1.0
