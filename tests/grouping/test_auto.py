"""What auto decides from given figures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sluice.grouping.auto import (
    COMBINE,
    KEY,
    LEAST_TUPLES,
    PLANNED,
    Auto,
    BatchFigures,
    Costs,
    estimate,
    rows_if_combined,
)

#: A million cheap tuples of few series from sources of equal size: the case that combining is made for.
CHEAP = BatchFigures(
    tuples=1_000_000, groups=1_000, rows=8_000, cost=2e-8, state=16, top=0.05, widest=1 / 8, workers=8
)
#: Expensive tuples, most of them in one source, and a hot key.
HOT = replace(CHEAP, cost=5e-5, top=0.4, widest=0.9)
#: Nearly every tuple is a series of its own, has a state of some size and costs some work.
DISTINCT = replace(CHEAP, groups=900_000, rows=1_000_000, cost=5e-6, state=16, top=1e-6, widest=0.6)


def cheapest(figures: BatchFigures) -> str:
    estimates = estimate(figures, Costs())
    return min(estimates, key=lambda name: estimates[name])


@pytest.mark.parametrize(("figures", "best"), [(CHEAP, COMBINE), (HOT, PLANNED), (DISTINCT, KEY)])
def test_each_strategy_is_the_cheapest_somewhere(figures: BatchFigures, best: str) -> None:
    assert cheapest(figures) == best


def test_large_states_that_each_source_repeats_are_not_worth_combining() -> None:
    many = replace(CHEAP, groups=50_000, rows=400_000, state=4_096)
    assert cheapest(many) != COMBINE
    assert cheapest(replace(many, rows=50_000)) == COMBINE  # each key comes from one source anyway


def test_a_hot_key_costs_key_grouping_its_share_and_planned_nothing() -> None:
    calm, hot = (estimate(replace(HOT, top=top), Costs()) for top in (1e-6, 0.5))
    assert hot[KEY] > 3 * calm[KEY]
    assert hot[PLANNED] == calm[PLANNED]
    assert hot[COMBINE] == calm[COMBINE]


def test_on_one_worker_nothing_is_better_than_combining() -> None:
    for figures in (CHEAP, HOT, DISTINCT):
        alone = replace(figures, workers=1, widest=1.0, rows=figures.groups)
        assert cheapest(alone) == COMBINE


def test_auto_begins_combined_and_changes_after_three_batches() -> None:
    auto = Auto()
    assert auto.decision.strategy == COMBINE
    found = [auto.observe(HOT) for _ in range(3)]
    assert [each.strategy for each in found] == [COMBINE, COMBINE, PLANNED]
    assert [(each.rival, each.streak) for each in found] == [(PLANNED, 1), (PLANNED, 2), (None, 0)]
    assert "2 of 3 batches" in found[1].reason
    assert found[2].reason.startswith("better than combine by")
    assert found[2].figures == HOT
    assert set(found[2].estimates) == {COMBINE, KEY, PLANNED}


def test_figures_that_swing_change_nothing() -> None:
    auto = Auto()
    for figures in [HOT, HOT, CHEAP] * 5:
        auto.observe(figures)
    assert auto.decision.strategy == COMBINE


def test_rivals_that_take_turns_change_nothing() -> None:
    auto = Auto()
    for figures in [HOT, DISTINCT] * 5:
        assert auto.observe(figures).streak == 1
    assert auto.decision.strategy == COMBINE


def test_a_gain_below_the_margin_changes_nothing() -> None:
    estimates = estimate(HOT, Costs())
    gain = 1 - estimates[PLANNED] / estimates[COMBINE]
    patient, keen = Auto(margin=gain + 0.01, patience=1), Auto(margin=gain - 0.01, patience=1)
    assert patient.observe(HOT).strategy == COMBINE
    assert "less than" in patient.decision.reason
    assert keen.observe(HOT).strategy == PLANNED


def test_small_batches_decide_nothing_and_end_no_streak() -> None:
    auto = Auto()
    auto.observe(HOT)
    small = replace(CHEAP, tuples=LEAST_TUPLES - 1)
    assert auto.observe(small).streak == 1
    auto.observe(HOT)
    assert auto.observe(HOT).strategy == PLANNED


def test_it_goes_back_when_the_work_is_cheap_again() -> None:
    auto = Auto()
    for _ in range(3):
        auto.observe(HOT)
    for _ in range(3):
        auto.observe(CHEAP)
    assert auto.decision.strategy == COMBINE


def test_a_decision_is_plain_data() -> None:
    document = Auto().observe(HOT).document()
    assert document["figures"]["tuples"] == HOT.tuples
    assert document["rival"] == PLANNED


@pytest.mark.slow
@pytest.mark.parametrize("sources", [1, 2, 7])
def test_rows_that_sources_would_send_agree_with_throwing_dice(sources: int) -> None:
    counts = np.array([1, 2, 5, 100])
    dice = np.random.default_rng(0)
    thrown = [
        sum(len(np.unique(dice.integers(0, sources, count))) for count in counts.tolist())
        for _ in range(4_000)
    ]
    assert rows_if_combined(counts, sources) == pytest.approx(np.mean(thrown), rel=0.02)
