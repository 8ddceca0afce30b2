"""Faults are drawn evenly over pairs, and the same seed draws the same ones."""

from __future__ import annotations

from collections import Counter

from sluice_lab.chaos.draws import CUT_BYTES, LONG, PAUSE_SECONDS, FaultKind, draws

PAIRS = {
    FaultKind.KILL: ["kafka", "watch", "speed_layer"],
    FaultKind.STOP: ["kafka", "watch", "speed_layer"],
    FaultKind.POWER_CUT: ["kafka"],
}


def test_the_same_seed_draws_the_same_faults() -> None:
    assert draws(PAIRS, 50, 7) == draws(PAIRS, 50, 7)
    assert draws(PAIRS, 50, 7) != draws(PAIRS, 50, 8)
    assert draws(PAIRS, 20, 7) == draws(PAIRS, 50, 7)[:20]


def test_each_pair_comes_as_often_as_any_other() -> None:
    counts = Counter((fault.kind, fault.part) for fault in draws(PAIRS, 7 * 4 + 3, 1))
    assert set(counts.values()) == {4, 5}
    assert len(counts) == 7


def test_only_what_lasts_has_seconds() -> None:
    for fault in draws(PAIRS, 200, 1):
        assert (fault.kind == FaultKind.STOP) == (fault.seconds > 0)
        assert fault.seconds <= 30
        assert PAUSE_SECONDS[0] <= fault.pause <= PAUSE_SECONDS[1]
    assert max(fault.seconds for fault in draws(PAIRS, 200, 1, LONG)) > 100
    assert CUT_BYTES == (4096, 65536)


def test_about_a_third_overlap() -> None:
    share = sum(fault.overlaps for fault in draws(PAIRS, 900, 3)) / 900
    assert 0.28 < share < 0.39


def test_without_pairs_there_is_nothing_to_draw() -> None:
    assert draws({FaultKind.KILL: ["a"]}, 2, 1) != []
    assert draws({}, 0, 1) == []
