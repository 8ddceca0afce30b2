"""What DuckDB counts of files is what plain Python counts, and each difference of a layer is found."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pytest

from sluice.results.layer_results import ResultLayer, ResultValue, Series
from sluice.runtime.settings import ROOT, Settings
from sluice.tasks.first_tasks import first_tasks
from sluice_lab.access_lines import access_lines
from sluice_lab.chaos import truth
from sluice_lab.chaos.front_ends import log_file
from tests.e2e.running import expected

DAY = dt.date(2026, 3, 2)
LINES = access_lines(DAY, 400)
RIGHT: dict[Series, dict[str, ResultValue]] = {(0, ("a",)): {"count": 3}, (0, ("b",)): {"count": 1}}


def written(path: Path, lines: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.mark.slow
def test_duckdb_counts_what_python_counts(tmp_path: Path) -> None:
    files = [written(tmp_path / "one", LINES[:150]), written(tmp_path / "two", LINES[150:])]
    assert truth.wanted(files) == expected(LINES)


def test_every_task_of_a_new_platform_is_compared() -> None:
    assert {task.name for task in first_tasks(ROOT)} == set(truth.TASKS)


def test_right_results_are_right() -> None:
    found = truth.verdict("t", "online", RIGHT, RIGHT)
    assert found == truth.TaskVerdict("t", "online", results=2, lost=0, doubled=0, differing=0)
    assert found.right


@pytest.mark.parametrize(
    ("layer", "lost", "doubled", "differing"),
    [
        ({(0, ("a",)): {"count": 2}, (0, ("b",)): {"count": 1}}, 1, 0, 1),
        ({(0, ("a",)): {"count": 3}}, 1, 0, 1),
        ({}, 4, 0, 2),
        ({**RIGHT, (0, ("b",)): {"count": 3}}, 0, 2, 1),
        ({**RIGHT, (9, ("c",)): {"count": 5}}, 0, 5, 1),
        ({(0, ("a",)): {"count": 4}}, 1, 1, 2),
        ({**RIGHT, (0, ("b",)): {"count": 1, "sum": 4}}, 0, 0, 1),
    ],
)
def test_what_lacks_is_double_or_differs_is_found(
    layer: dict[Series, dict[str, ResultValue]], lost: int, doubled: int, differing: int
) -> None:
    found = truth.verdict("t", "online", RIGHT, layer)
    assert (found.lost, found.doubled, found.differing) == (lost, doubled, differing)
    assert not found.right
    assert len(found.examples) == differing


def test_lines_that_were_taken_are_left_out_by_where_they_begin(tmp_path: Path) -> None:
    path = written(tmp_path / "web1" / "log", ["first", "second", "third"])
    copy = truth.without(path, np.array([6]), tmp_path)
    assert copy.read_text() == "first\nthird\n"
    assert copy.name == "web1.log"


@pytest.mark.slow
def test_each_layer_is_held_against_the_files_without_the_lines_that_may_lack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(instance="dev", home=tmp_path)
    path = written(log_file(tmp_path, "web1", DAY), LINES)
    first = len(LINES[0]) + 1
    left = [LINES[0], *LINES[2:]]

    def stored(_: Settings, task: str, layer: ResultLayer, __: object) -> truth.Counted:
        return expected(LINES if layer == ResultLayer.ONLINE else left)[task]

    monkeypatch.setattr(truth, "stored", stored)
    strict = truth.hold(settings, [DAY], {}, ResultLayer)
    assert {each.lost for each in strict if each.layer == "offline" and each.task == "hits_by_status"} == {1}
    assert all(each.right for each in strict if each.layer == "online")
    taken = truth.hold(settings, [DAY], {path.resolve(): np.array([first])}, ResultLayer)
    assert all(each.right for each in taken if each.layer == "offline")
    assert {each.doubled for each in taken if each.layer == "online" and each.task == "bytes_by_path"} == {1}
