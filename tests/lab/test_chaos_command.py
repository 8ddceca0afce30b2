"""`sluice lab chaos`: what it starts, and what it refuses. It is in `sluice_lab.commands`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sluice_lab.chaos.__main__ import pair, parser
from sluice_lab.chaos.draws import FaultKind
from sluice_lab.commands.chaos import chosen_kinds, chosen_pair
from sluice_lab.commands.grouping import app


class Started(Exception):
    """The command became another program."""


def start(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> list[str]:
    """The arguments of the program that the command becomes."""
    found: list[str] = []

    def execv(program: str, command: list[str]) -> None:
        assert program == sys.executable
        found.extend(command)
        raise Started

    monkeypatch.setattr(os, "execv", execv)
    result = CliRunner().invoke(app, ["chaos", *arguments])
    assert isinstance(result.exception, Started), result.output
    assert f"seed {found[found.index('--seed') + 1]};" in result.output
    return found


def test_what_was_asked_for_reaches_the_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    several = (
        "--faults",
        "6",
        "--seed",
        "7",
        "--kinds",
        "kill,power-cut",
        "--long",
        "--without",
        "power_cut:hbase",
    )
    command = start(monkeypatch, *several, "--out", f"{tmp_path}")
    assert command[:4] == [sys.executable, "-P", "-m", "sluice_lab.chaos"]
    options = parser().parse_args(command[4:])
    assert (options.faults, options.seed, options.long, options.keep) == (6, 7, True, False)
    assert (options.kinds, options.out) == ("kill,power cut", tmp_path)
    assert [pair(text) for text in options.without] == [(FaultKind.POWER_CUT, "hbase")]


def test_without_a_seed_one_is_drawn_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = {start(monkeypatch)[5] for _ in range(3)}
    assert len(seeds) > 1


def test_a_kind_that_is_none_is_refused() -> None:
    assert CliRunner().invoke(app, ["chaos", "--kinds", "flood"]).exit_code == 2
    with pytest.raises(typer.BadParameter, match="'flood' is none of kill, stop, partition, power cut"):
        chosen_kinds("kill,flood")


@pytest.mark.parametrize("text", ["kill", "kill:", "flood:kafka"])
def test_what_is_no_pair_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=r"such as kill:kafka|'flood' is none of"):
        chosen_pair(text)


@pytest.mark.slow
def test_an_instance_with_data_of_others_is_refused_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "home" / "data").mkdir(parents=True)
    program = [
        sys.executable,
        "-m",
        "sluice_lab.chaos",
        "--faults",
        "1",
        "--seed",
        "1",
        "--out",
        f"{tmp_path}",
    ]
    place = {**os.environ, "SLUICE_HOME": f"{tmp_path / 'home'}"}
    done = subprocess.run(program, env=place, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("sluice: instance 'chaos' has data that chaos did not make")
    assert done.stderr.count("\n") == 1
    assert (tmp_path / "home" / "data").is_dir()


def test_a_report_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["chaos", "--page", f"{tmp_path / 'none.json'}"])
    assert "there is no report" in str(result.exception)
