"""`sluice lines` over lines in memory: what it prints, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from sluice.cli.lines import lines
from sluice.lines import answer as module
from sluice.lines.answer import LinesAnswer
from sluice.lines.query import LinesQuery
from sluice.results.query import BadQuery
from tests.engine.samples import BYTES, active, line, spec
from tests.lines.made import MadeSources, answer
from tests.lines.test_answer import BEGIN, EVERYTHING, one

TASK = spec(measure=BYTES, metrics=["count", "missing", "sum"])
HOSTILE = line(at=BEGIN + timedelta(seconds=1), path="/\x1b[2J").replace(b"10.0.0.1", b"=1+1", 1)
LINES = [line(at=BEGIN), HOSTILE, line(at=BEGIN, path="/\xff").replace("\xff".encode(), b"\xff")]
PERIOD = ("--period", "2015-05-17T10:05:00Z")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What the result counts."""
    says = [len(LINES)]

    def find(settings: Any, query: LinesQuery, **options: Any) -> LinesAnswer:
        query.check(active(TASK)[0])
        sources = MadeSources([[one(n, text) for n, text in enumerate(LINES)]], gone=["a file is gone"])
        return answer(TASK, query, sources, below=EVERYTHING, counted=says[0])

    monkeypatch.setattr(module, "find", find)
    return says


def run(*arguments: str) -> Any:
    app = typer.Typer()
    app.command()(lines)
    return CliRunner().invoke(app, ["sample", *arguments])


def test_a_line_is_printed_with_its_identity_and_without_control_characters(counted: list[int]) -> None:
    shown = run(*PERIOD)
    assert shown.exit_code == 0
    first, second, third = shown.stdout.splitlines()
    assert first == f"web1:access.log:0  0/0.0  {LINES[0].decode()}"
    assert "/\\x1b[2J" in second
    assert "/\\xff" in third
    assert "\x1b" not in shown.output
    assert "3 lines (open, commit 7)" in shown.stderr


def test_json_and_csv_have_the_same_lines(counted: list[int]) -> None:
    found = json.loads(run(*PERIOD, "--format", "json").stdout)
    assert [each["line"] for each in found] == [each.decode("utf-8", "backslashreplace") for each in LINES]
    assert (found[1]["host"], found[1]["kafka_offset"]) == ("web1", 1)
    rows = list(csv.DictReader(io.StringIO(run(*PERIOD, "--format", "csv").stdout)))
    assert [row["line"][:5] for row in rows] == ["10.0.", "'=1+1", "10.0."]  # no formula


def test_a_count_is_a_number(counted: list[int]) -> None:
    assert run(*PERIOD, "--count").stdout == "3\n"
    assert json.loads(run(*PERIOD, "--count", "--format", "json").stdout) == [{"lines": 3}]


def test_a_limit_says_how_many_there_are(counted: list[int]) -> None:
    shown = run(*PERIOD, "--limit", "2")
    assert len(shown.stdout.splitlines()) == 2
    assert "there are 3 lines in all" in shown.stderr


def test_lines_that_are_gone_are_a_failure(counted: list[int]) -> None:
    counted[0] = 5
    shown = run(*PERIOD)
    assert shown.exit_code == 1
    assert "the result counts 5 lines, and 3 were found: a file is gone" in shown.stderr


def test_a_time_inside_a_period_names_the_nearest_starts(counted: list[int]) -> None:
    with pytest.raises(BadQuery, match=r"nearest is 2015-05-17T10:05:00Z, .* 2015-05-17T10:06:00Z"):
        raise run("--period", "2015-05-17T10:05:10Z").exception


def test_the_nearest_starts_are_in_the_tasks_time_zone() -> None:
    (task,) = active(spec(period="1d", timezone="Europe/Berlin"))
    query = LinesQuery(task="sample", period=1_427_580_000_000)  # 2015-03-28T22:00Z, an hour before the day
    with pytest.raises(BadQuery, match=r"nearest is 2015-03-29T00:00:00\+01:00"):
        query.check(task)
    query.model_copy(update={"period": 1_427_583_600_000}).check(task)
