"""What the page shows of live runs, and what live runs are held against."""

from __future__ import annotations

import pytest

from sluice_lab.tables import Measured, selected
from sluice_lab.transmission import agreement, live_tables
from sluice_lab.transmission.agreement import agrees, determined
from sluice_lab.transmission.bars import bars
from sluice_lab.transmission.chance import StepOutcome, read, written
from sluice_lab.transmission.experiments import LIVE
from sluice_lab.transmission.figures import of_all_runs, quantile
from sluice_lab.transmission.page import PAGE, load, render
from sluice_lab.transmission.rivals import ALL, KAFKAS, kafka_version
from sluice_lab.transmission.scenarios import SCENARIOS
from sluice_lab.trials import Row

MEASURED = load()


def phase(step: str, partitions: str = "4/4/5", moved: int = 0, living: int = 0, run: int = 0) -> Row:
    """A phase of paper's scenario under range, of a live run."""
    labels: Row = {"scenario": "paper", "strategy": "range", "run": run, "step": step}
    figures = dict.fromkeys(("load", "p50", "worst", "balanced", "rate", "cpu", "twice", "busy"), 0.5 + run)
    return {**labels, "partitions": partitions, "moved": moved, "living": living, **figures}


def stood(step: str, run: int, *seconds: float) -> list[Row]:
    labels: Row = {"scenario": "paper", "strategy": "range", "run": run, "step": step}
    return [{**labels, "partition": f"t-{n}", "seconds": each} for n, each in enumerate(seconds)]


def table(measured: Measured) -> dict[str, str]:
    """The one row of the table of C0's departure, by column."""
    found = live_tables.tables(measured)["paper"]["C0 leaves"]
    return dict(zip(found.columns, map(str, found.rows[0]), strict=True))


def test_how_long_partitions_stood_still_is_taken_from_all_runs_together() -> None:
    live = [phase("- C0", run=run) for run in range(10)]
    # Each run's own 99th percentile is its worst partition: 9 in one run, 1 in the others.
    some = [row for run in range(10) for row in stood("- C0", run, *[0.1] * 19, 9.0 if run == 0 else 1.0)]
    found = table({"live": live, "stood": some})
    assert found["p50 / p99, s"] == "0.1 / 1"
    assert quantile([1.0, 2.0, 3.0], 0.99) == 3.0


def test_where_the_standstill_of_partitions_was_not_kept_for_all_runs_there_is_no_p99() -> None:
    live = [phase("- C0", run=run) for run in range(2)]
    some = stood("- C0", 0, 0.1, 0.2)
    assert (of_all_runs(live, some), of_all_runs(live[:1], some)) == (False, True)
    found = table({"live": live, "stood": some})
    assert found["p50, s"] == "1 (0.5 to 1.5)"
    assert "p50 / p99, s" not in found


def test_the_worst_of_all_runs_is_told_where_the_interval_hides_it() -> None:
    few = table({"live": [phase("- C0", run=run) for run in range(3)], "stood": []})
    assert few["worst, s"] == "1.5 (0.5 to 2.5)"
    many = table({"live": [phase("- C0", run=run) for run in range(9)], "stood": []})
    assert many["worst, s"] == "4.5 (1.5 to 7.5), most 8.5"


def test_tables_of_live_runs_have_what_members_hold_and_what_moved_between_living_ones() -> None:
    live = [phase("- C0", "4/9", 3, 1), phase("- C0", "4/9", 3, 1, 1), phase("- C0", "5/8", 1, 0, 2)]
    found = table({"live": live, "stood": []})
    assert (found["partitions"], found["living"]) == ("4/9 (2 of 3)", "1 (0 to 1)")
    assert len(found) <= 11


def test_how_busy_the_machine_was_is_told_by_scenario_and_once_for_each_run() -> None:
    live = [phase(step, run=run) for run in range(3) for step in ("start", "- C0", "+ C0", "+ C0")]
    (row,) = live_tables.set_up(live).rows
    assert row == ["paper", "3", "number", "0.3", "1.5 (0.5 to 2.5)", "no"]
    live[0] |= {"pinned": 1, "arrives": 1.3}
    (row,) = live_tables.set_up(live).rows
    assert (row[3], row[-1]) == ("0.1, 0.3", "1 of 3 runs")
    assert {row[0]: row[2] for row in live_tables.set_up(MEASURED["live"]).rows} == {
        name: "load and speed" if SCENARIOS[name].known else "number" for name in LIVE
    }


def test_six_members_have_more_partitions_of_less_each() -> None:
    loads = {row[0]: row[3] for row in live_tables.set_up(MEASURED["live"]).rows}
    assert (loads["rolling"], loads["paper"]) == ("0.163", "0.3")


def test_the_machine_is_told_as_far_as_it_was_kept() -> None:
    assert live_tables.cores([{"cores": 4}, {"cores": 8}]) == "4 or 8 processors"
    assert live_tables.cores([{"cores": 4}, {}]) == "4 processors; of other runs it was not kept"
    assert "not kept" in live_tables.cores([{}])


def test_the_page_names_kafkas_version_as_the_project_pins_it() -> None:
    assert f"Kafka {kafka_version()}" in PAGE.read_text()
    assert kafka_version()[0].isdigit()


# Live and computed.

COMPUTED: list[Row] = [
    {"step": "start", "partitions": "2/3/8", "moved": 0, "living": 0},
    {"step": "- C0", "partitions": "4/9", "moved": 3, "living": 1, "possible": "4/9:1:0 4/9:3:1"},
]


@pytest.mark.parametrize(
    ("gone", "agreeing"),
    [
        (("4/9", 3, 1), 2),
        (("9/4", 1, 0), 2),
        (("5/8", 3, 1), 1),
        (("4/9", 3, 0), 1),
        (("4/9", 2, 1), 1),
    ],
    ids=["as named", "other ids", "less even", "other members", "other moves"],
)
def test_a_phase_must_end_with_the_partitions_and_the_moves_that_were_computed(
    gone: tuple[str, int, int], agreeing: int
) -> None:
    assert agrees([phase("start", "8/3/2"), phase("- C0", *gone)], COMPUTED) == agreeing


def test_a_phase_is_held_against_its_own_step_and_not_against_another_of_that_name() -> None:
    steps = [COMPUTED[0], COMPUTED[1], COMPUTED[0] | {"step": "- C0", "moved": 9}]
    run = [phase("start", "2/3/8"), phase("- C0", "2/3/8", 9), phase("- C0", "2/3/8", 9)]
    assert agrees(run, steps) == 2


def test_what_moved_fails_the_bar_of_a_contender() -> None:
    live = [dict(row) for row in MEASURED["live"]]
    (hit,) = selected(live, scenario="growing", strategy="roundrobin", run=0, step="t2=11")
    hit["moved"] = 1
    failed = {bar.name for bar in bars({**MEASURED, "live": live}) if not bar.holds}
    assert "growing: roundrobin on live brokers ends as computed" in failed


def test_ours_is_held_against_what_is_computed_where_it_goes_by_number() -> None:
    assert {name for name in LIVE if determined(name) == KAFKAS} == {"skew", "slow", "both"}
    assert {name for name in LIVE if determined(name) == ALL} == set(LIVE) - {"skew", "slow", "both"}
    assert agreement.allowed({"possible": "1:0:0"}) == [StepOutcome("1", 0, 0)]


def test_outcomes_are_written_and_read() -> None:
    some = {StepOutcome("4/9", 3, 1), StepOutcome("4/9", 1, 0)}
    assert set(read(written(some))) == some
    assert StepOutcome("1/3/9", 0, 0).number() == pytest.approx(14 / 13)
    assert read("") == []


def test_load_is_held_at_every_step() -> None:
    names = [bar.name for bar in bars(MEASURED)]
    for scenario in ("skew", "slow", "both"):
        for step in ("start", "- C0", "+ C0"):
            assert any(name.startswith(f"{scenario}, {step}, live: load") for name in names)


@pytest.mark.slow
def test_the_page_has_every_scenarios_moves_beside_their_sum() -> None:
    found = live_tables.moved(MEASURED["live"])
    assert list(found.columns) == ["assignor", *LIVE, "all"]
    some = {**MEASURED, "live": selected(MEASURED["live"], scenario="paper")}
    assert list(live_tables.moved(some["live"]).columns) == ["assignor", "paper", "all"]
    assert "Too little was measured" in render({**some, "live": []})
