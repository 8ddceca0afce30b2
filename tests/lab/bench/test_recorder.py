"""Recorded passes, their steps and their flame graphs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sluice_lab.bench import flames, page, pass_time
from sluice_lab.bench.outcome import Flame, Outcome
from sluice_lab.bench.recorder import Recorder, by_stage


def outer() -> None:
    sum(range(400_000))
    inner()


def inner() -> None:
    sum(range(1_600_000))


def test_time_belongs_to_the_stack_that_spent_it() -> None:
    with Recorder() as recorder:
        outer()
    stages = by_stage(recorder.stacks, {"test_recorder.outer": "one", "test_recorder.inner": "two"}, "rest")
    assert 2 < stages["two"] / stages["one"] < 8
    assert stages["rest"] < stages["one"]


def test_a_flame_graph_shows_shares_and_leaves_out_what_is_small(tmp_path: Path) -> None:
    stacks = {"a;b<c>": 3.0, "a;d": 1.0, "a;d;e": 0.001, "f": 4.0}
    flames.draw(Flame("A & B", stacks), tmp_path / "flames.svg")
    titles = re.findall("<title>(.*?)</title>", (tmp_path / "flames.svg").read_text())
    assert titles == ["a: 50.0%", "b&lt;c&gt;: 37.5%", "d: 12.5%", "f: 50.0%"]


def test_the_steps_add_up_to_the_fastest_pass(tmp_path: Path) -> None:
    stacks = {
        n: {"count.count": 1.0, "count.count;parse.event_time": 1.0, "count.count;x;cut.column;y": 2.0}
        for n in pass_time.NUMBERS
    }
    found = pass_time.outcome({1: 1e-3, 16: 2e-3, 64: 4e-3}, stacks, 1_000, quick=False)
    row = dict(zip(found.tables[0].columns, found.tables[0].rows[0], strict=True))
    assert row["times"] == pytest.approx(250)
    assert row["cut and codes"] == pytest.approx(500)
    assert row["all"] == pytest.approx(1_000)
    assert found.bars[0].figure == pytest.approx(3 / 63)
    path = found.write(tmp_path)
    assert Outcome.read(tmp_path / "measured" / path.name).flames == found.flames
    assert "![The pass with 64 tasks](images/flames-pass-time.svg)" in page.section(found)
