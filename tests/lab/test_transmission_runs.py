"""Runs are kept one by one, a group is waited for, and pages and bars say what was not measured."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sluice.assignment.base import AssignedPartition
from sluice.cli.main import app
from sluice_lab import runs as kept_runs
from sluice_lab.commands import transmission as command
from sluice_lab.runs import RunKey
from sluice_lab.transmission import experiments, paper, runs
from sluice_lab.transmission.assignor_server import AssignorServer
from sluice_lab.transmission.bars import EVEN, _measured, bars
from sluice_lab.transmission.experiments import LIVE, GroupPlan, missing, scaled
from sluice_lab.transmission.figures import together
from sluice_lab.transmission.measures import rows, samples
from sluice_lab.transmission.members import MemberEvent, processors
from sluice_lab.transmission.ownership import QUIET_SECONDS, owners, unsettled
from sluice_lab.transmission.page import drawn, load, render
from sluice_lab.transmission.rivals import ALL
from sluice_lab.transmission.run import GroupRunLog
from sluice_lab.transmission.runs import FILES, GroupRuns
from sluice_lab.transmission.scenarios import ARRIVES, PAPER, SCENARIOS, GroupScenario, ScenarioStep
from sluice_lab.trials import Row

A, B = AssignedPartition("t", 0), AssignedPartition("t", 1)
ONE = {"t": 2}


def event(member: str, kind: Any, at: float, *partitions: AssignedPartition) -> MemberEvent:
    of = [[*each, 0, 1] for each in partitions]
    return MemberEvent(member, kind, at, {"of": of, "bytes": 1000 * len(of), "busy": 1.0})


def log(contender: str = "range", settled: bool = True) -> GroupRunLog:
    """A run of paper's scenario: steps at 8 and 17, the end at 26; C1 and C2 read all the time.

    settled: whether the group was stable at the end.
    """
    made = GroupRunLog(
        PAPER, contender, 8.0, ended=26.0, steps=[8.0, 17.0], settled=[True, True, settled], busy=0.5
    )
    made.pinned, made.cores = 3, 4
    made.events = [event("C1", "assigned", 0.1, AssignedPartition("t1", 0)), event("C1", "left", 25.0)]
    made.events += [event("C1", "got", n / 2, AssignedPartition("t1", 0)) for n in range(50)]
    made.looks = [(n / 2, {"C0": 0.0, "C1": n * 0.1, "C2": n * 0.05}) for n in range(53)]
    return made


@pytest.mark.parametrize(
    ("left_out", "why"),
    [
        ("", ""),
        ("C1 assigned", "C1 has no partition"),
        ("C1 got", "not read"),
        ("C0 left", "C0 still has partitions"),
    ],
)
def test_a_group_is_stable_when_living_members_have_and_read_every_partition(left_out: str, why: str) -> None:
    events = [
        event("C0", "assigned", 1, A),
        event("C2", "assigned", 1, B),
        event("C2", "got", 2, B),
        event("C0", "left", 3),
        event("C1", "assigned", 4, A),
        event("C1", "got", 5, A),
    ]
    some = [each for each in events if f"{each.member} {each.kind}" != left_out]
    if left_out == "C0 left":
        some = some[:3]
    found = unsettled(some, 10.0, {"C1", "C2"}, ONE)
    assert why in found
    assert bool(found) == bool(why)


def test_a_group_is_not_stable_a_moment_after_a_change_or_while_a_partition_has_no_owner() -> None:
    events = [event("C1", "assigned", 4, A, B), event("C1", "got", 5, A, B)]
    assert unsettled(events, 10.0, {"C1"}, ONE) == ""
    assert unsettled(events, 4 + QUIET_SECONDS / 2, {"C1"}, ONE)
    assert "1 partitions" in unsettled(events, 10.0, {"C1"}, {"t": 3})
    assert "no partition" in unsettled([], 10.0, {"C1"}, ONE)


def test_a_frozen_member_does_not_own_what_others_were_given() -> None:
    events = [event("C0", "assigned", 1, A), event("C1", "assigned", 1, B)]
    assert "C0 still has" in unsettled(events, 10.0, {"C1"}, ONE)
    events += [event("C1", "assigned", 9, A), event("C1", "got", 9.5, A, B)]
    assert owners(events) == {"C0": [], "C1": [A, B]}
    assert unsettled(events, 20.0, {"C1"}, ONE) == ""


def test_a_measurement_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    plan = GroupPlan(("paper",), ("range", "ours"), 2)
    kept = GroupRuns(tmp_path)
    assert missing(plan, kept) == plan.order()
    kept.add(log(), 0)
    kept.add(log("ours"), 1)
    again = GroupRuns(tmp_path)
    assert missing(plan, again) == [RunKey("paper", "ours", 0), RunKey("paper", "range", 1)]
    again.add(log(), 0)
    for name in FILES:
        found = json.loads((tmp_path / f"{name}.json").read_text())["rows"]
        assert len(found) == len({tuple(row[:5]) for row in found}), "a run that is repeated replaces itself"
    again.forget(["paper"])
    assert missing(plan, GroupRuns(tmp_path)) == plan.order()


def test_a_run_that_broke_or_went_by_the_clock_is_shown_and_measured_again(tmp_path: Path) -> None:
    plan = GroupPlan(("paper",), ("range", "ours"), 1)
    kept = GroupRuns(tmp_path)
    kept.add(log(settled=False), 0)
    kept.add(log("ours"), 0)
    again = GroupRuns(tmp_path)
    assert kept.done == again.done == {RunKey("paper", "ours", 0)}
    assert missing(plan, again) == [RunKey("paper", "range", 0)]
    again.add(log(), 0)
    assert missing(plan, GroupRuns(tmp_path)) == []
    document = json.loads((tmp_path / "live.json").read_text())
    place = document["columns"].index("settled")
    for row in document["rows"]:
        row[place] = None
    (tmp_path / "live.json").write_text(json.dumps(document))
    assert missing(plan, GroupRuns(tmp_path)) == plan.order()


@pytest.mark.parametrize("written", range(3))
@pytest.mark.parametrize("how", ["forgotten", "replaced"])
def test_a_run_that_is_deleted_is_not_half_there_when_the_laboratory_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int, how: str
) -> None:
    kept, whole = GroupRuns(tmp_path), kept_runs.keep
    kept.add(log(), 0)
    left = iter(range(written))

    def keep(name: str, some: list[Row], folder: Path) -> None:
        next(left)
        whole(name, some, folder)

    monkeypatch.setattr(kept_runs, "keep", keep)
    with contextlib.suppress(StopIteration):
        if how == "forgotten":
            kept.forget(["paper"])
        else:
            kept.add(log(settled=False), 0)
    found = runs.load(tmp_path)
    assert {name: bool(found[name]) for name in FILES} == dict.fromkeys(FILES, written == 0)


def test_what_went_wrong_in_a_run_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = log()
    broken.problems = ["C1 failed: java.lang.Error"]
    monkeypatch.setattr(experiments, "live", lambda plan, keys: ((key, broken) for key in keys))
    said: list[str] = []
    experiments.measure(GroupPlan(("paper",), ("range",), 1), GroupRuns(tmp_path), said.append)
    assert said == ["1 of 1: paper, range, run 1", "  C1 failed: java.lang.Error"]


def test_our_assignor_goes_by_number_where_no_loads_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    by_load: dict[str, bool] = {}

    def run(cluster: object, asked: AssignorServer, scenario: GroupScenario, *args: object) -> GroupRunLog:
        by_load[scenario.name] = asked._use
        return log()

    monkeypatch.setattr(experiments, "_cluster", lambda members: contextlib.nullcontext())
    monkeypatch.setattr(experiments, "_run", run)
    list(experiments.live(GroupPlan(), [RunKey(name, "ours", 0) for name in LIVE]))
    assert by_load == {name: SCENARIOS[name].known for name in LIVE}


def test_a_run_that_was_killed_while_it_was_kept_is_not_half_there(tmp_path: Path) -> None:
    kept = GroupRuns(tmp_path)
    kept.add(log(), 0)
    before = (tmp_path / "live.json").read_bytes()
    kept.add(log("ours"), 0)
    (tmp_path / "live.json").write_bytes(before)
    found = GroupRuns(tmp_path)
    assert found.done == {RunKey("paper", "range", 0)}
    found.add(log("sticky"), 0)
    for name in FILES:
        document = json.loads((tmp_path / f"{name}.json").read_text())
        place = document["columns"].index("strategy")
        assert {row[place] for row in document["rows"]} == {"range", "sticky"}


def test_samples_have_each_members_cpu_and_their_steps_at_the_same_times() -> None:
    found = list(samples(log(), 0, 2.0))
    assert [row["at"] for row in found] == [2.0 * n for n in range(12)]
    assert found[1]["C1 cpu"] == pytest.approx(0.2)
    assert found[1]["cpu"] == pytest.approx(0.3)
    (_, _, last) = rows(log(settled=False), 0)
    assert (last["settled"], last["busy"]) == (0, 0.5)
    assert (last["pinned"], last["cores"], last["arrives"]) == (3, 4, ARRIVES / 1e6)


def test_a_frozen_member_does_not_count_among_the_members() -> None:
    made = GroupRunLog(SCENARIOS["frozen"], "range", 5.0, ended=30.0, steps=[10.0, 20.0], settled=[True] * 3)
    every = [AssignedPartition(t, n) for t, count in PAPER.partitions.items() for n in range(count)]
    made.events = [event("C0", "assigned", 1, *every[:4]), event("C1", "assigned", 1, *every[4:8])]
    made.events += [event("C2", "assigned", 1, *every[8:]), event("C1", "assigned", 15, *every[:4])]
    assert [row["partitions"] for row in rows(made, 0)][:2] == ["4/4/5", "8/5"]


def test_partitions_that_are_added_have_a_load_and_all_groups_get_as_much() -> None:
    growing = scaled(SCENARIOS["growing"])
    assert (
        growing.load(AssignedPartition("t2", 10))
        == growing.load(AssignedPartition("t2", 0))
        == pytest.approx(0.3e6)
    )
    rolling = scaled(SCENARIOS["rolling"])
    assert sum(rolling.loads.values()) == pytest.approx(ARRIVES)
    assert [ScenarioStep("grow", "t2=11").told(), ScenarioStep("freeze", "C0").told()] == [
        "t2 grows to 11 partitions",
        "C0 stands still",
    ]


def test_many_steps_are_one_row_a_run() -> None:
    def row(step: str, moved: int, worst: float) -> Row:
        times = {"p50": worst, "worst": worst, "balanced": worst}
        common: Row = {"strategy": "ours", "run": 0, "load": 0.1, "rate": 4.0, "cpu": 0.5, "twice": 7}
        held: Row = {"partitions": step, "living": moved - 3}
        return {**common, "step": step, "moved": moved, **held, **times}

    (one,) = together([row("start", 99, 99.0), row("- C0", 4, 1.0), row("+ C0", 3, 2.0)])
    assert (one["moved"], one["worst"], one["p50"], one["twice"]) == (7, 2.0, 1.5, 7)
    assert (one["living"], one["partitions"]) == (1, "+ C0")


def sample(contender: str, at: float, rate: float, cpu: float) -> Row:
    common: Row = {"scenario": "paper", "strategy": contender, "run": 0, "at": at}
    return {**common, "C1": rate, "C2": 0.0, "C1 cpu": cpu, "C2 cpu": 0.0}


def test_what_the_paper_says_is_compared_with_medians() -> None:
    rises = {"range": 2.0, "roundrobin": 3.0, "sticky": 1.0}
    found = [
        sample(name, at, rise if 8 <= at < 16 else 0.0, 0.1 + rise * (at == 8))
        for name, rise in rises.items()
        for at in range(0, 24, 2)
    ]
    table = {row[0]: row[1:] for row in paper.claims(found, paper.Absence(8, 16)).rows}
    assert table["C0 leaves: sticky's rate rises least (MB/s)"] == ["2", "3", "1", "yes"]
    assert table["C0 comes back: sticky's rate falls least (MB/s)"][-1] == "yes"
    assert table["sticky uses most CPU (processors, mean)"][-1] == "no"
    assert table["C0 leaves: sticky's CPU peaks last (s after it)"] == ["0", "0", "0", "no"]
    without = [{k: v for k, v in row.items() if k != "C1 cpu"} for row in found]
    assert len(paper.claims(without, paper.Absence(8, 16)).rows) == 2
    assert paper.claims([], paper.Absence(8, 16)).rows == []


def test_what_the_start_of_a_group_brings_is_no_rise_and_what_an_absence_costs_is_no_fall() -> None:
    """The rate climbs to 3 while the group starts, rises by 0.5 at 8, falls by 1 at 10 and by 0.25 at 16."""
    rates = {0: 0.0, 2: 0.0, 4: 3.0, 6: 3.0, 8: 3.5, 10: 2.5, 12: 2.5, 14: 2.5, 16: 2.25, 18: 2.25}
    run = [sample("range", at, rate, 0.0) for at, rate in rates.items()]
    absence = paper.Absence(8, 16)
    assert (absence.rise(run), absence.fall(run)) == (0.5, -0.25)
    assert paper.changes(run, 8)[0] == (8, 0.5)
    (row,) = paper.greatest(run, absence).rows
    assert row == ["range", "0.5", "-0.25"]


@pytest.mark.slow
def test_a_page_of_computed_figures_alone_says_what_was_not_measured(tmp_path: Path) -> None:
    measured = {"computed": load()["computed"], "live": [], "samples": [], "stood": []}
    found = {bar.name: bar for bar in bars(measured)}
    for scenario in LIVE:
        bar = found[f"{scenario}: every contender is measured, and every phase ends with a stable group"]
        assert (bar.figure, bar.holds) == ("not measured", False)
    assert drawn(measured) == {}
    assert "![" not in render(measured)


@pytest.mark.parametrize(
    ("settled", "figure", "holds"),
    [
        ([1, 1], "14 of 14 phases", True),
        ([1, 0], "7 of 14 phases", False),
        ([1, None], "7 of 14 phases", False),
        ([None, None], "measured by the clock", False),
    ],
)
def test_phases_of_which_nothing_is_known_were_not_stable(
    settled: list[int | None], figure: str, holds: bool
) -> None:
    found: list[Row] = [
        {"scenario": "paper", "strategy": name} | ({} if each is None else {"settled": each})
        for name in ALL
        for each in settled
    ]
    (bar, *_) = _measured({"live": found})
    assert (bar.figure, bar.holds) == (figure, holds)


def test_every_live_scenario_has_its_bars() -> None:
    assert set(LIVE) == {"paper", "skew", "slow", "both", *EVEN}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--page", "--fresh"],
        ["--page", "--runs", "5"],
        ["--page", "--rate", "2"],
        ["--quick", "--rate", "2"],
        ["--rate", "0"],
        ["--scenarios", "large"],
        ["--runs", "0"],
        ["--quick", "--fresh"],
        ["--quick", "--runs", "9"],
        ["--quick", "--scenarios", "skew"],
    ],
)
def test_a_command_that_makes_no_sense_is_refused(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, ["lab", "transmission", *arguments]).exit_code == 2


def test_runs_of_another_rate_are_not_mixed_with_those_that_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = GroupRuns(tmp_path)
    kept.add(log(), 0)
    assert kept.other_rates(LIVE, ARRIVES) == []
    assert GroupRuns(tmp_path).other_rates(LIVE, 2e6) == ["paper"]
    assert GroupRuns(tmp_path).other_rates(["skew"], 2e6) == []
    monkeypatch.setattr(experiments, "FOLDER", tmp_path)
    refused = CliRunner().invoke(app, ["lab", "transmission", "--scenarios", "paper", "--rate", "2"])
    assert (refused.exit_code, "--fresh" in refused.output) == (2, True)


def test_the_commands_default_rate_is_the_laboratorys() -> None:
    assert command._RATE * 1e6 == ARRIVES
    assert command._RUNS == experiments.RUNS


def test_a_rate_is_that_of_all_partitions_and_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[GroupScenario] = []

    def run(cluster: object, asked: AssignorServer, scenario: GroupScenario, *args: object) -> GroupRunLog:
        made.append(scenario)
        return log()

    monkeypatch.setattr(experiments, "_cluster", lambda members: contextlib.nullcontext())
    monkeypatch.setattr(experiments, "_run", run)
    ((_, found),) = experiments.live(GroupPlan(arrives=1.3e6), [RunKey("paper", "ours", 0)])
    assert sum(made[-1].loads.values()) == pytest.approx(1.3e6)
    assert (found.arrives, found.pinned, found.cores) == (1.3e6, len(processors()), os.cpu_count())
