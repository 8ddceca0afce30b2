"""Hot keys against exact counts of the same half-life."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.speed.routed import hot_keys as module
from sluice.speed.routed.hot_keys import HALF_LIFE, RoutedHotKeys

batches = st.lists(st.dictionaries(st.sampled_from("abcdefghijkl"), st.integers(1, 50)), max_size=8)


@given(batches, st.integers(1, 14))
def test_a_share_is_too_low_by_at_most_its_error_and_never_too_high(
    found: list[dict[str, int]], room: int
) -> None:
    exact: dict[str, float] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ROOM", room)
        hot = RoutedHotKeys()
        for batch in found:
            exact = {key: count * 0.5 ** (1 / HALF_LIFE) for key, count in exact.items()}
            for key, count in batch.items():
                exact[key] = exact.get(key, 0) + count
            hot.add(pa.array(list(batch), pa.string()), np.array(list(batch.values()), np.int64))
        shown = hot.top(5)
    total = sum(exact.values())
    assert len(shown) == min(5, room, len(exact))
    for each in shown:
        true = exact[each.key] / total
        assert true - each.error - 1e-9 <= each.share <= true + 1e-9
    if room >= 12:
        assert all(each.error == 0 for each in shown)
        expected = sorted(exact.items(), key=lambda item: (-item[1], item[0]))
        assert [e.share for e in shown] == pytest.approx([count / total for _, count in expected[:5]])


def test_a_key_that_is_no_longer_hot_fades() -> None:
    hot = RoutedHotKeys()
    hot.add(pa.array(["old", "other"]), np.array([1_000, 10]))
    for _ in range(int(4 * HALF_LIFE)):
        hot.add(pa.array(["new", "other"]), np.array([1_000, 10]))
    shares = {each.key: each.share for each in hot.top(10)}
    assert shares["new"] > 0.9
    assert shares["old"] < 0.01


def test_a_key_that_comes_back_says_what_it_may_have_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROOM", 1)
    hot = RoutedHotKeys()
    hot.add(pa.array(["a"]), np.array([10]))
    hot.add(pa.array(["b"]), np.array([20]))  # takes a's place
    hot.add(pa.array(["a"]), np.array([100]))
    (a,) = hot.top(1)
    kept = 0.5 ** (1 / HALF_LIFE)
    assert (a.key, a.share * (10 * kept**2 + 20 * kept + 100)) == ("a", pytest.approx(100))
    assert a.error > 0
