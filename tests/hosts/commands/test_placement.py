"""`sluice placement ...` shows, moves and explains."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from sluice.runtime import settings as of_settings
from sluice.storage import postgres
from sluice_hosts.commands import placement
from sluice_hosts.units import catalogue, measure
from sluice_hosts.units.carrying import MoveFailed
from tests.hosts.units.double import DictionaryUnits, Instance, made


@pytest.fixture
def units(monkeypatch: pytest.MonkeyPatch):
    """Two units on h1 and none on h2; hosts were looked at already."""
    with made() as instance:
        instance.hosts(h1=8, h2=8)
        instance.loads({"collector:c1": 1.0, "collector:c2": 1.0})
        double = DictionaryUnits({"c1": "h1", "c2": "h1"})
        monkeypatch.setattr(of_settings, "get_settings", lambda: instance.settings)
        monkeypatch.setattr(postgres, "engine", lambda _: instance.database)
        monkeypatch.setattr(catalogue, "KINDS", (double,))
        monkeypatch.setattr(measure, "look", lambda *_: None)
        double.instance = instance  # type: ignore[attr-defined]
        yield double


def run(*arguments: str) -> str:
    done = CliRunner().invoke(placement.app, [*arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_plan_shows_moves_as_rows_and_moves_nothing(units: DictionaryUnits) -> None:
    (row,) = json.loads(run("plan", "--format", "json"))
    assert (row["step"], row["from"], row["to"]) == (1, "h1", "h2")
    assert "h1 is " in row["why"]
    assert row["unit"] in run("plan")
    assert units.moved == []


def test_a_dry_run_moves_nothing_and_apply_does_and_then_says_that_nothing_moves(
    units: DictionaryUnits,
) -> None:
    assert "h2" in run("apply", "--dry-run")
    assert units.moved == []
    assert " moves from h1 to h2: " in run("apply")
    assert len(units.moved) == 1
    assert "nothing moves" in run("apply")


@pytest.mark.slow
def test_an_avoided_host_is_noted_and_used_when_one_says_so(units: DictionaryUnits) -> None:
    units.broken.add("h2")
    failed = CliRunner().invoke(placement.app, ["apply"])
    assert isinstance(failed.exception, MoveFailed)
    units.broken.clear()
    planned = CliRunner().invoke(placement.app, ["plan"])
    assert "host h2 is avoided until " in planned.stderr
    assert "nothing moves" in run("apply")
    assert "h2" in run("apply", "--again", "--dry-run")
    assert " moves from h1 to h2: " in run("apply", "--again")
    assert [host for _, host in units.moved] == ["h2"]


def test_a_silent_host_is_noted(units: DictionaryUnits) -> None:
    instance: Instance = units.instance  # type: ignore[attr-defined]
    instance.silence("h2", 5)
    done = CliRunner().invoke(placement.app, ["plan"])
    assert "host h2 has not answered since" in done.stderr
    assert "units that can stay do so" in done.stderr


def test_explain_prints_sentences_and_rows(units: DictionaryUnits) -> None:
    assert "collector:c1\n  It is on h1: 2 of its 8 slots are taken.\n" in run("explain", "collector:c1")
    rows = json.loads(run("explain", "--format", "json"))
    assert {(row["unit"], row["other"]) for row in rows} >= {
        ("collector:c1", "h2"),
        ("collector:c1", "local"),
    }
    assert {row["unit"] for row in rows} == {"collector:c1", "collector:c2", "collector:here"}
