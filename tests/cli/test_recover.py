"""What `sluice recover` says of what it found, of what is gone and of an archive with faults."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer

from sluice.backup import recover as recovery
from sluice.backup.definitions import Definitions
from sluice.backup.recover import GONE, RecoveredTopic, RecoveryPlan
from sluice.cli import recover as command

TASKS = [{"name": f"task{n}", "deleted_at": None} for n in range(12)]
PLAN = RecoveryPlan(
    Definitions("0032", {"tasks": [*TASKS, {"name": "old", "deleted_at": "2026-01-05T02:00:00+00:00"}]}),
    datetime(2026, 1, 5, 2, 0, tzinfo=UTC),
    {"logs": (1_234, 5 << 20)},
)
FOUND = [
    "definitions of 2026-01-05 02:00:00 UTC: 12 tasks (task0, task1, task10, task11, task2, task3, task4, "
    "task5, task6, task7 and 2 more)",
    "archive of logs: 1,234 files, 5.0 MiB",
]


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return "".join(capsys.readouterr())


def recovered(monkeypatch: pytest.MonkeyPatch, *problems: str) -> None:
    done = [RecoveredTopic("logs", 7, 2_800, problems), RecoveredTopic("other", 0, 21, ())]
    monkeypatch.setattr(recovery, "recover", lambda *_: (PLAN, done))


def test_a_dry_run_says_what_there_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def changed(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(recovery, "recover", changed)
    monkeypatch.setattr(recovery, "look", lambda *_: PLAN)
    command.recover(dry_run=True)
    assert said(capsys).splitlines() == [*FOUND, "nothing was changed"]


def test_a_recovery_says_what_is_gone_and_what_comes_next(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recovered(monkeypatch)
    command.recover()
    text = said(capsys)
    assert text.splitlines()[: len(FOUND)] == FOUND
    assert all(f"  - {each}" in text for each in GONE)
    assert "2,821 periods are counted again once the platform runs" in text


@pytest.mark.parametrize("lost", [False, True])
def test_gaps_are_losses_only_if_that_is_asked_for(monkeypatch: pytest.MonkeyPatch, lost: bool) -> None:
    asked: list[bool] = []

    def recover(*given: Any) -> tuple[RecoveryPlan, list[RecoveredTopic]]:
        asked.append(given[-1])
        return PLAN, []

    monkeypatch.setattr(recovery, "recover", recover)
    command.recover(declare_lost=lost)
    assert asked == [lost]


def test_faults_of_the_archive_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recovered(monkeypatch, *(f"a gap at {n}" for n in range(11)))
    with pytest.raises(typer.Exit) as end:
        command.recover()
    assert end.value.exit_code == 1
    text = said(capsys)
    assert "the archive: a gap at 9" in text
    assert "a gap at 10" not in text
    assert "11 faults: `sluice archive verify` lists them" in text


def test_an_instance_without_an_archive_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_HOME", str(tmp_path / "trial"))
    with pytest.raises(recovery.RecoveryRefused, match="there is no archive to recover from"):
        command.recover(dry_run=True)
