"""What docs/transmission.md and docs/papers.md say in words is what their figures say."""

from __future__ import annotations

import re

import pytest

from sluice.runtime.settings import ROOT
from sluice.traffic.edu import EDU
from sluice_lab.runs import how_many
from sluice_lab.tables import selected
from sluice_lab.transmission import paper
from sluice_lab.transmission.advice import COOPERATIVE, EAGER, evenness, standstills, still, twice
from sluice_lab.transmission.bars import EVEN, UNEVEN
from sluice_lab.transmission.brokers import BEAT_MS
from sluice_lab.transmission.computed_tables import moves
from sluice_lab.transmission.experiments import LIVE, TIMES
from sluice_lab.transmission.page import PAGE, load
from sluice_lab.transmission.rivals import ALL, KAFKAS, OURS
from sluice_lab.transmission.scenarios import HOT, HOT_PARTITIONS, PROCESSED, SCENARIOS

MEASURED = load()
STANDSTILL = {(each.scenario, each.step): each for each in standstills(MEASURED)}
STICKY_KINDS = ("sticky", "cooperative-sticky", "kip848-uniform", OURS)
#: Figures that are as far apart as this are not equal by rounding.
SAME = 1e-3


def last(figure: str, scenario: str) -> dict[str, float]:
    """The computed figure after the last step, by contender."""
    return {
        str(row["strategy"]): float(row[figure]) for row in selected(MEASURED["computed"], scenario=scenario)
    }


def test_where_subscriptions_differ_the_sticky_kinds_are_even_and_others_are_not() -> None:
    found = last("number", "paper")
    assert max(found[name] for name in STICKY_KINDS) < 0.5 * min(found["range"], found["roundrobin"])


def test_eager_sticky_stands_still_least_in_papers_scenario() -> None:
    for step in ("- C0", "+ C0"):
        assert STANDSTILL["paper", step].shortest() == EAGER
    shorter = [each for each in STANDSTILL.values() if each.worst[EAGER] < each.worst[COOPERATIVE]]
    assert f"{len(shorter)} of the {len(STANDSTILL)} tables" in PAGE.read_text()
    assert len(shorter) > 0.8 * len(STANDSTILL)


def test_what_makes_eager_sticky_so_quick_is_in_the_figures() -> None:
    worst = STANDSTILL["paper", "+ C0"].worst[EAGER]
    assert worst < 0.25 * BEAT_MS / 1e3, "members hear of the rebalance at nearly the same moment"
    assert still(MEASURED, "range", "+ C0", 0.5) > 5 * still(MEASURED, EAGER, "+ C0", 0.5)
    at_its_limit = float(last_rate("range", "C2"))
    assert at_its_limit > 0.95 * PROCESSED / 1e6
    assert max(float(last_rate(EAGER, member)) for member in ("C0", "C1", "C2")) < 0.75 * PROCESSED / 1e6
    assert still(MEASURED, COOPERATIVE, "+ C0", 0.5) < 0.2, "what does not move is read meanwhile"
    assert STANDSTILL["paper", "+ C0"].worst[COOPERATIVE] > BEAT_MS / 1e3


def test_eager_stickys_rare_long_standstills_are_not_shorter_than_cooperative_stickys() -> None:
    assert still(MEASURED, EAGER, "- C0", 0.99) > 0.9 * still(MEASURED, COOPERATIVE, "- C0", 0.99)


def last_rate(name: str, member: str) -> float:
    runs = [run[-1] for run in paper.runs(MEASURED["samples"], name)]
    return sorted(float(row[member]) for row in runs)[len(runs) // 2]


@pytest.mark.parametrize("scenario", LIVE)
def test_only_cooperative_members_deliver_records_twice(scenario: str) -> None:
    found = twice(MEASURED, scenario)
    some = {name for name, count in found.items() if count > 0}
    if scenario != "frozen":
        assert some == (set() if scenario == "growing" else {COOPERATIVE, OURS})


@pytest.mark.parametrize("scenario", UNEVEN)
def test_where_loads_or_speeds_differ_nobody_is_more_even_than_ours(scenario: str) -> None:
    for step in ("start", "- C0", "+ C0"):
        found = evenness(MEASURED, scenario, step)
        assert found[OURS] <= min(found[name] for name in KAFKAS) + SAME
    assert STANDSTILL[scenario, "- C0"].shortest() == OURS
    assert STANDSTILL[scenario, "+ C0"].shortest() != OURS


def test_range_leaves_equal_members_least_even_and_is_even_by_luck_where_the_last_one_is_slow() -> None:
    for scenario in EVEN:
        found = last("number", scenario)
        assert found["range"] == max(found.values())
    assert last("number", "flapping")["range"] > last("number", "flapping")["sticky"]
    slow = evenness(MEASURED, "slow", "+ C0")
    assert slow["range"] == pytest.approx(slow[OURS], abs=SAME)
    assert max(SCENARIOS["slow"].topics) in SCENARIOS["slow"].speeds


def test_round_robin_is_nowhere_better_than_sticky() -> None:
    robin, sticky = (moves(MEASURED["computed"], name) for name in ("roundrobin", "sticky"))
    assert all(robin[scenario] >= sticky[scenario] for scenario in SCENARIOS)
    for scenario in SCENARIOS:
        for figure in ("number", "load"):
            assert last(figure, scenario)["roundrobin"] >= last(figure, scenario)["sticky"]


def test_five_times_is_what_edus_top_key_makes_of_one_of_fifty_partitions() -> None:
    rest = (1 - EDU.top) / HOT_PARTITIONS
    assert (EDU.top + rest) / rest == pytest.approx(HOT, rel=0.01)


# docs/papers.md.

PAPERS = (ROOT / "docs" / "papers.md").read_text()
NUMBERS = ("no", "one", "two", "three", "four", "five")


def section() -> str:
    begins = PAPERS.index("## Paper 003")
    return PAPERS[begins : PAPERS.index("\n## ", begins + 1)]


def test_the_page_of_papers_says_how_many_of_the_papers_statements_hold() -> None:
    claims = paper.claims(MEASURED["samples"], paper.Absence(TIMES.settle, TIMES.settle + TIMES.gap)).rows
    hold = [row[-1] for row in claims]
    assert hold == ["no", "no", "yes", "no", "yes"], "rise, fall, most CPU, lowest peak, last peak"
    assert f"{NUMBERS[hold.count('no')]} of the paper's {NUMBERS[len(hold)]} statements" in section()


def test_the_page_of_papers_says_how_many_runs_there_were() -> None:
    live = MEASURED["live"]
    others = [row for row in live if row["scenario"] != "paper"]
    counts = re.findall(r"[0-9]+", how_many(others))
    fewest, most = min(map(int, counts)), max(map(int, counts))
    said = str(fewest) if fewest == most else f"{fewest} to {most}"
    assert f"{how_many(selected(live, scenario='paper'))} runs of the paper's scenario" in section()
    assert f"{said} of each other" in section()


def test_the_page_of_papers_has_the_computed_figures() -> None:
    numbers = last("number", "paper")
    assert f"{numbers['range']:.3f}" in section()
    assert f"{numbers['sticky']:.3f}" in section()
    for name in ("range", "roundrobin", "sticky"):
        gone = selected(MEASURED["computed"], scenario="paper", strategy=name, step="- C0")[0]
        assert f"{gone['moved']} ({gone['living']})" in section()
    ours, sticky = (moves(MEASURED["computed"], name)["slow"] for name in (OURS, EAGER))
    assert f"{ours} against {sticky}" in section()


def test_every_live_scenario_of_all_contenders_is_in_the_summary() -> None:
    assert {scenario for scenario, _ in STANDSTILL} == set(LIVE)
    assert all(set(each.worst) == set(ALL) for each in STANDSTILL.values())
