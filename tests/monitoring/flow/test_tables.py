"""Freshness, lines at each hop, hot keys and load by worker."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from sluice.monitoring.flow.tables import fresh, hops, hot, within
from tests.monitoring.flow.made import AT, SECOND, nothing, seen

BOUNDS = ("0.5", "1", "2", "5", "+Inf")


@given(st.lists(st.sampled_from(BOUNDS), max_size=60), st.sampled_from([0.5, 0.95, 1.0]))
def test_a_share_of_the_lines_waited_no_longer_than_the_bound(waits: list[str], share: float) -> None:
    counts = {bound: float(waits.count(bound)) for bound in BOUNDS}
    found = within(counts, share)
    if not waits:
        assert found is None
        return
    assert found is not None
    assert sum(float(each) <= found for each in waits) >= share * len(waits)
    below = [float(bound) for bound in BOUNDS if float(bound) < found]
    assert not below or sum(float(each) <= below[-1] for each in waits) < share * len(waits)


def test_freshness_is_of_the_newest_minutes_and_has_a_line_of_the_day() -> None:
    (row,) = fresh(seen())
    assert (row.topic, row.within, row.counted) == ("logs", 0.5, AT - 2 * SECOND)
    assert (row.computed, row.published) == ("2026-11-24", "2026-11-23")
    assert {point for point in row.line.points if point is not None} == {0.5}
    assert fresh(nothing()) == ()


def test_lines_at_each_hop_lately_and_ever() -> None:
    found = {row.hop: (row.lately, row.ever) for row in hops(seen())}
    assert found == {
        "Sent by the edges": (2 * 90 * 60, None),
        "Sent by the collectors": (90 * 60, None),
        "Committed from Kafka": (90 * 60, 208),
        "Counted online": (90 * 60, 2000),
        "Doubles, left out": (90 * 60, None),
        "Dead letters": (7, None),
        "Archived, doubles included": (90 * 60, 2080),
        "Computed by nights": (None, 1900),
    }
    assert len(hops(nothing())) == 2


def test_hot_keys_and_loads_over_time() -> None:
    combined, routed = hot(seen())
    assert (combined.task, combined.imbalance, combined.workers) == ("combined", None, ())
    (key,) = routed.keys
    assert (key.key, key.share, key.workers) == (("/a",), 0.125, (0, 1))
    assert key.line.points[-1] == 0.125
    assert [(each.worker, each.share) for each in routed.workers] == [(0, 0.6), (1, 0.4)]
    assert routed.workers[0].line.points[-1] == 0.6
    assert routed.workers[1].line.points[-1] is None
    assert math.isclose(routed.line.points[-1] or 0, 0.01)
