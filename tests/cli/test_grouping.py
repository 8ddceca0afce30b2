"""`sluice grouping` and `sluice hotkeys` on a progress file as the speed layer writes it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sluice.cli import grouping as module
from sluice.cli.main import app
from sluice.grouping import STRATEGIES
from sluice.runtime.settings import get_settings
from sluice.speed.progress import SpeedProgress
from sluice.stack.jobs import SPEED_LAYER
from sluice.stack.progress import CountingState, progress_file
from sluice.storage import postgres
from sluice.tasks import TaskSpec
from sluice.tasks.store import TaskStore
from tests.cli.routed import ROUTED, document
from tests.own_time import own_time
from tests.tasks.database import sqlite


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("SLUICE_INSTANCE", "test")
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path))
    get_settings.cache_clear()
    yield tmp_path
    get_settings.cache_clear()


@pytest.fixture
def counted(home: Path) -> None:
    progress = SpeedProgress(progress_file(get_settings(), SPEED_LAYER))
    progress.batch("logs", {}, grouping={"3v2": document("combined"), "4v1": ROUTED})
    progress.batch("shop", {}, grouping={})
    progress.topic("new", CountingState.STARTING)  # has counted nothing yet


def sluice(command: str, *arguments: str) -> Any:
    return CliRunner().invoke(app, [command, *arguments])


@pytest.mark.usefixtures("counted")
def test_explain_says_what_was_asked_decided_and_measured() -> None:
    shown = sluice("grouping", "explain")
    assert shown.exit_code == 0, shown.output
    combined, routed = shown.output.split("\n\n")
    assert combined.startswith("combined (3v2, topic logs)\n")
    assert "asked      auto" in combined
    assert "grouped by combine: " in combined
    assert "200,000 in 5,000 series (2.50% distinct)" in combined
    assert "18,000 partial aggregates of 24 bytes" in combined
    assert "2 us a tuple" in combined
    assert "30.00% for the hottest key, 50% for the largest source" in combined
    assert all(f"{name} " in combined for name in ("combine", "key", "planned"))
    assert 'asked      {"strategy": "planned", "half_life": 2.0}' in routed
    assert "1.00% in the last batch, 2.00% over the last hour, 50.00% at worst" in routed
    assert "0: 60.0%, 1: 40.0%" in routed
    assert "plan       12 keys one by one, 1 of them split" in routed
    assert "plan " not in combined
    assert "as of      2026-11-21T10:00:00Z" in routed


@pytest.mark.usefixtures("counted")
def test_explain_of_one_task_and_as_json() -> None:
    assert sluice("grouping", "explain", "routed").output.startswith("routed (4v1")
    (found,) = json.loads(sluice("grouping", "explain", "routed", "--json").output)
    assert (found["strategy"], found["asked"]) == ("planned", {"strategy": "planned", "half_life": 2.0})
    assert "hot" not in found


@pytest.mark.usefixtures("counted")
def test_hot_keys_for_people() -> None:
    shown = sluice("hotkeys").output
    assert "\x1b" not in shown  # what a key holds must not steer the terminal
    lines = shown.splitlines()
    assert lines[0].split() == ["task", "grouping", "key", "share", "error", "workers"]
    assert "combined" in lines[2]
    assert lines[3].split() == ["routed", "planned", "/a", "12.50%", "1.00%", "0,1"]
    assert "routed: load 0: 60.0%, 1: 40.0%" in lines


@pytest.mark.usefixtures("counted")
def test_hot_keys_for_programs() -> None:
    rows = list(csv.DictReader(io.StringIO(sluice("hotkeys", "routed", "--format", "csv").output)))
    assert rows == [
        {
            "task": "routed",
            "id": "4v1",
            "grouping": "planned",
            "key": '["/a"]',
            "share": "0.125",
            "error": "0.01",
            "workers": "[0, 1]",
            "imbalance": "0.01",
            "imbalance_hour": "0.02",
        }
    ]
    (row,) = json.loads(sluice("hotkeys", "combined", "--format", "json").output)
    assert (row["key"], row["imbalance"]) == (["10.0.0.1", "\x1b[2J"], None)


@pytest.mark.usefixtures("counted")
def test_watching_shows_them_again_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt

    own_time(monkeypatch, module, sleep=sleep)
    shown = sluice("hotkeys", "routed", "--watch")
    assert shown.output.count("/a") == 3
    assert slept == [module.WATCH_SECONDS] * 3


@pytest.mark.usefixtures("counted")
def test_a_task_without_a_report() -> None:
    for command in (("grouping", "explain"), ("hotkeys",)):
        shown = sluice(*command, "nothing")
        assert shown.exit_code != 0
        assert "no running speed layer has counted task 'nothing' yet" in str(shown.exception)


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize("command", [("grouping", "explain"), ("hotkeys",)])
def test_a_task_that_does_not_exist(monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
    made = sqlite()
    monkeypatch.setattr(postgres, "engine", lambda settings: made)
    spec = TaskSpec.model_validate({"name": "idle", "topic": "logs", "period": "1m", "metrics": ["count"]})
    TaskStore(made).apply([spec], "me")
    assert str(sluice(*command, "idel").exception) == "there is no task 'idel': did you mean idle?"
    assert "there is no task 'nope': `sluice tasks list` shows" in str(sluice(*command, "nope").exception)
    assert "has counted task 'idle' yet" in str(sluice(*command, "idle").exception)


@pytest.mark.usefixtures("home")
def test_without_a_speed_layer() -> None:
    assert "has counted any task yet" in str(sluice("hotkeys").exception)


def test_every_strategy_is_listed_with_its_parameters() -> None:
    shown = sluice("grouping", "strategies", "--format", "csv")
    rows = {row["strategy"]: row for row in csv.DictReader(io.StringIO(shown.output))}
    assert list(rows) == ["auto", *STRATEGIES]
    assert "half_life=1.0" in rows["planned"]["parameters"]
    assert all(len(row["what it is"]) > 20 for row in rows.values())
