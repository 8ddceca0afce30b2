"""Kafka's own assignors answer as their rules say, ours is more even, and docs/transmission.md says so."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from sluice.assignment.assign import assign
from sluice.assignment.base import AssignedPartition
from sluice.assignment.smoothing import SETTLED_SECONDS, ObservedGroup
from sluice_lab import medians
from sluice_lab.runs import how_many
from sluice_lab.tables import selected
from sluice_lab.transmission import chance, experiments
from sluice_lab.transmission.assignor_server import AssignorServer
from sluice_lab.transmission.bars import COMPUTED_PAPER, bars, even_enough
from sluice_lab.transmission.chance import read
from sluice_lab.transmission.computed import least, rows, whole
from sluice_lab.transmission.measures import balanced_after, owners, phases, rate, standstill, twice
from sluice_lab.transmission.members import MemberEvent
from sluice_lab.transmission.page import PAGE, drawn, load, render, write
from sluice_lab.transmission.rivals import ALL, KAFKAS, OURS, ask
from sluice_lab.transmission.run import GroupRunLog
from sluice_lab.transmission.scenarios import PAPER, SCENARIOS

pytestmark = [pytest.mark.slow, pytest.mark.long]

A, B = AssignedPartition("t0", 0), AssignedPartition("t0", 1)


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_assignor_hands_out_every_partition_once(name: str) -> None:
    group = SCENARIOS[name].group()
    for assignor, answer in zip(ALL, ask([(each, group) for each in ALL]), strict=True):
        assert whole(group, answer), assignor


def test_kafkas_own_classes_give_papers_group_what_their_rules_say() -> None:
    found = list(rows(["paper"], repeats=1))
    for name, (start, gone, moved, living) in COMPUTED_PAPER.items():
        first, second, third = (row for row in found if row["strategy"] == name)
        assert (first["partitions"], third["partitions"]) == (start, start)
        assert sorted(str(second["partitions"]).split("/")) == gone.split("/")
        assert (second["moved"], second["living"]) == (moved, living)


def test_what_a_random_order_of_ids_can_make_of_papers_group_is_computed() -> None:
    first, gone, back = selected(list(rows(("paper",), repeats=1)), strategy="kip848-range")
    numbers = [{round(each.number(), 3) for each in read(row["possible"])} for row in (first, gone, back)]
    assert numbers == [{0.846, 1.077}, {0.385}, {0.846, 1.077}]
    assert first["possible"] == "1/3/9:0:0 1/4/8:0:0 2/3/8:0:0"
    assert gone["possible"] == "4/9:1:0 4/9:3:1", "it depends on whether C0 was before others"
    assert back["possible"] == "1/3/9:1:1 1/4/8:1:1 2/3/8:3:3"


@pytest.mark.parametrize(("scenario", "same"), [("frozen", True), ("skew", False)])
def test_a_member_that_only_stood_still_keeps_its_id_and_one_that_joins_gets_another(
    scenario: str, same: bool
) -> None:
    found = SCENARIOS[scenario]
    ids = {name: f"{name}'s" for name in found.topics}
    walk = chance._Walk("kip848-range", found.group(), dict(ids), assign(found.group()))
    for step in found.steps:
        chance._take(walk, found, step, random.Random(0))  # noqa: S311 - no secret
        walk.before = assign(walk.group)
    assert {name for name in ids if ids[name] != walk.ids[name]} == (set() if same else {"C0"})


def test_under_skew_and_with_a_slow_member_ours_is_next_to_the_least_uneven() -> None:
    for name in ("skew", "slow", "both"):
        scenario = SCENARIOS[name]
        found = [row for row in rows([name], repeats=1) if row["step"] in ("start", "+ C0")]
        best = least(scenario, sorted(scenario.topics))
        others = min(float(row["load"]) for row in found if row["strategy"] in KAFKAS)
        for row in found:
            if row["strategy"] == OURS:
                assert even_enough(float(row["load"]), others, best)


def test_a_java_consumers_question_gets_what_our_algorithm_wants_but_nothing_that_another_has() -> None:
    asked = AssignorServer(ObservedGroup())
    member = {"topics": ["t0"], "owned": [], "generation": 1}
    alone = {"C0-x": member | {"owned": [[*A], [*B]]}}
    assert asked.answer({"members": alone, "partitions": {"t0": 2}}) == {"C0-x": [A, B]}
    two = alone | {"C1-y": member}
    assert asked.answer({"members": two, "partitions": {"t0": 2}}) == {"C0-x": [A], "C1-y": []}


def test_without_loads_our_algorithm_goes_by_number() -> None:
    def answered(use: bool) -> int:
        asked = AssignorServer(ObservedGroup(), use)
        for at in (0.0, SETTLED_SECONDS):
            asked.saw(
                at, {AssignedPartition("t0", n): (at * (9e6 if n == 0 else 1e3), 0.0) for n in range(4)}
            )
        members = {name: {"topics": ["t0"], "owned": [], "generation": 1} for name in ("C0-x", "C1-y")}
        found = asked.answer({"members": members, "partitions": {"t0": 4}})
        return min(len(held) for held in found.values())

    assert (answered(True), answered(False)) == (1, 2)


def made(*events: tuple[str, str, float, dict[str, object]]) -> GroupRunLog:
    """A log of paper's scenario: C0 leaves at 10 and comes back at 20; it ends at 30."""
    log = GroupRunLog(PAPER, "range", 10.0, began=0.0, ended=30.0, steps=[10.0, 20.0], settled=[True] * 3)
    log.events = [MemberEvent(member, kind, at, what) for member, kind, at, what in events]  # type: ignore[arg-type]
    return log


def got(
    at: float, first: int, following: int, partition: AssignedPartition = A, member: str = "C1"
) -> tuple[str, str, float, dict[str, object]]:
    return member, "got", at, {"of": [[*partition, first, following]], "bytes": (following - first) * 1000}


def test_records_that_two_members_processed_count_as_twice() -> None:
    assert twice(made(got(1, 0, 10), got(2, 5, 12), got(3, 12, 20))) == 5
    assert twice(made(got(1, 0, 10), got(2, 0, 10, B))) == 0


def test_a_partition_stands_still_from_its_last_record_before_a_step_to_the_next_one() -> None:
    log = made(got(9, 0, 1), got(14, 1, 2), got(19, 2, 3))
    assert standstill(log, phases(log)[1])[A] == 5
    assert rate(log, 10, 20) == 200


def test_the_latest_that_is_given_a_partition_owns_it() -> None:
    log = made(
        ("C0", "assigned", 1.0, {"of": [[*A], [*B]]}),
        ("C1", "assigned", 12.0, {"of": [[*B]]}),
        ("C0", "revoked", 13.0, {"of": [[*A]]}),
        ("C0", "left", 14.0, {}),
    )
    assert owners(log, 5) == {"C0": [A, B]}
    assert owners(log, 12.5) == {"C0": [A], "C1": [B]}
    assert owners(log, 20) == {"C1": [B]}
    assert balanced_after(log, phases(log)[1]) == 3


def test_a_median_of_thirty_has_an_interval_of_the_tenth_and_the_twenty_first() -> None:
    assert medians.of(list(range(1, 31))) == (15.5, 10, 21)
    assert medians.of([3.0]) == (3.0, 3.0, 3.0)


def test_the_page_is_made_of_what_was_kept(tmp_path: Path) -> None:
    assert PAGE.read_text() == render(load()), "run: sluice lab transmission --page"
    page = write(tmp_path / "transmission.md")
    for name in drawn(load()):
        image = Path("images") / f"transmission-{name}.svg"
        assert (page.parent / image).read_bytes() == (PAGE.parent / image).read_bytes()


def test_the_page_shows_every_bar_and_whether_it_holds() -> None:
    text = PAGE.read_text()
    for bar in bars(load()):
        assert f"| {bar.name} | {bar.figure} | {'holds' if bar.holds else '**fails**'} |" in text


def test_what_is_kept_of_our_assignor_is_what_it_computes() -> None:
    (start,) = (
        row
        for row in load()["computed"]
        if (row["scenario"], row["strategy"], row["step"]) == ("paper", OURS, "start")
    )
    assert start["partitions"] == "/".join(str(len(held)) for held in assign(PAPER.group()).values())


def test_how_long_live_runs_take_is_said_before() -> None:
    def minutes(**changes: object) -> float:
        plan = replace(experiments.GroupPlan(), **changes)
        return experiments.minutes(plan.order(), plan)

    assert 60 < minutes() < 120, "a default that somebody can wait for"
    assert minutes(runs=30) == pytest.approx(10 * minutes())
    assert minutes(scenarios=("paper",), contenders=("ours",), runs=1) == pytest.approx((3 * 8 + 3) / 60)


def test_contenders_take_turns_and_scenarios_are_measured_equally_often() -> None:
    order = experiments.GroupPlan(("paper", "skew"), ("range", "ours"), 2).order()
    assert [(key.scenario, key.contender, key.run) for key in order] == [
        ("paper", "range", 0),
        ("paper", "ours", 0),
        ("skew", "range", 0),
        ("skew", "ours", 0),
        ("paper", "ours", 1),
        ("paper", "range", 1),
        ("skew", "ours", 1),
        ("skew", "range", 1),
    ]


def test_the_page_says_how_many_runs_each_scenario_had() -> None:
    def of(scenario: str, run: int, strategy: str = "ours") -> dict[str, object]:
        return {"scenario": scenario, "strategy": strategy, "run": run}

    kept = [of("paper", 0), of("skew", 0), *(of("both", n) for n in range(3))]
    assert how_many(kept) == "1 (paper, skew), 3 (both)"
    assert how_many([of("paper", 4), of("skew", 4)]) == "1"
    assert how_many([*kept, of("both", 0, "range")]) == "1 (paper, skew), 1 to 3 (both)"
