"""`sluice lab`: what a person types, sees and finds in files."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from sluice import grouping
from sluice_lab import experiments, page
from sluice_lab.commands.grouping import app

FEW = ("--tuples", "2000", "--workers", "4")


def lab(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def shown(*arguments: str) -> list[dict[str, object]]:
    found = lab("grouping", *arguments, "--format", "json")
    assert found.exit_code == 0, found.output
    rows: list[dict[str, object]] = json.loads(found.stdout)
    return rows


@pytest.mark.slow
def test_all_strategies_are_tried_on_edu() -> None:
    rows = shown(*FEW)
    assert [row["strategy"] for row in rows] == list(grouping.STRATEGIES)
    assert {(row["stream"], row["workers"], row["batch"]) for row in rows} == {("edu", 4, 2)}


def test_what_is_asked_for_is_tried() -> None:
    rows = shown(
        "--strategy", "key,kg2:support=0.01:error=0.001", "--stream", "isp", "--stream", "zipf:1.4:1000",
        "--workers", "2,3", "--tuples", "500", "--batches", "3", "--every-batch",
    )  # fmt: skip
    assert len(rows) == 2 * 2 * 2 * 3
    assert {row["stream"] for row in rows} == {"isp", "zipf:1.4:1000"}
    assert {row["strategy"] for row in rows} == {"key", "kg2:support=0.01:error=0.001"}


def test_a_table_is_for_people() -> None:
    found = lab("grouping", "--strategy", "shuffle", *FEW)
    header, _, row = found.stdout.splitlines()
    assert header.split()[:6] == ["strategy", "stream", "workers", "batch", "relative", "share"]
    assert row.split()[:5] == ["shuffle", "edu", "4", "2", "0"]


@pytest.mark.slow
def test_a_log_is_a_stream(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("a;x\nb;x\na;y\n" * 100)
    whole = shown("--strategy", "key", "--stream", f"file:{path}", "--tuples", "300", "--workers", "2")
    cut = shown(
        "--strategy", "shuffle", "--stream", f"file:{path}", "--delimiter", ";", "--index", "1",
        "--tuples", "300", "--workers", "2", "--sources", "1",
    )  # fmt: skip
    assert whole[0]["stream"] == cut[0]["stream"] == f"file:{path}"
    assert cut[0]["partials"] == 4  # x and y at both workers


@pytest.mark.slow
def test_latencies_are_shown_where_a_utilisation_is_given() -> None:
    found = lab(
        "grouping", "--strategy", "shuffle,nag", "--times", "1,1,2,4", "--utilisation", "0.3,0.6", *FEW
    )
    assert found.exit_code == 0, found.output
    header = found.stdout.split("\n\n")[1].splitlines()[0].split()
    assert header[-6:] == ["busiest", "mean", "p50", "p90", "p99", "p999"]
    assert len(found.stdout.split("\n\n")[1].splitlines()) == 2 + 4


def test_a_csv_file_has_every_batch_and_figure(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    found = lab("grouping", "--strategy", "key,pkg", *FEW, "--batches", "3", "--csv", str(path))
    assert f"{path}: 6 rows" in found.stderr
    with path.open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["strategy"], row["batch"]) for row in rows] == [
        (s, b) for s in ("key", "pkg") for b in "123"
    ]
    assert {"sources", "times", "state_kib", "boundary_ms"} <= set(rows[0])


@pytest.mark.slow
def test_plots_are_drawn(tmp_path: Path) -> None:
    found = lab(
        "grouping", "--strategy", "key,pkg", "--workers", "2,4", "--tuples", "500",
        "--utilisation", "0.1,0.2", "--plots", str(tmp_path / "plots"),
    )  # fmt: skip
    drawn = sorted(path.name for path in (tmp_path / "plots").iterdir())
    assert sorted(Path(line).name for line in found.stderr.split()) == drawn
    assert drawn[:3] == [
        "imbalance-by-batch-edu-2-workers.svg",
        "imbalance-by-batch-edu-4-workers.svg",
        "imbalance-by-workers-edu.svg",
    ]
    assert "latency-by-utilisation-edu-4-workers.svg" in drawn


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--strategy", "luck"), "'luck' is not known"),
        (("--strategy", "kg2:support=7"), "support is 7"),
        (("--stream", "dude"), "stream 'dude'"),
        (("--times", "fast"), "times 'fast'"),
        (("--stream", "zipf:9"), "z must be 0 to 4"),
    ],
)
def test_an_impossible_trial_is_refused_with_the_reason(arguments: tuple[str, ...], reason: str) -> None:
    """The command's own errors; `sluice` prints them as one line, with exit code 2."""
    found = lab("grouping", *FEW, *arguments)
    assert isinstance(found.exception, ValueError)
    assert reason in str(found.exception)


@pytest.mark.parametrize(
    "arguments", [("--workers", "few"), ("--utilisation", "all"), ("--sources", "0"), ("--tuples", "0")]
)
def test_an_argument_that_is_no_number_is_usage(arguments: tuple[str, ...]) -> None:
    assert lab("grouping", *arguments).exit_code == 2


def test_the_page_is_written_from_what_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(experiments, "measure", lambda name, scale: done.append(name) or Path(name))
    monkeypatch.setattr(page, "write", lambda: done.append("page") or tmp_path)
    assert lab("page").exit_code == 0
    assert done == [*experiments.EXPERIMENTS, "page"]
    done.clear()
    assert lab("page", "--experiments", "drift,latency").exit_code == 0
    assert done == ["drift", "latency", "page"]
    done.clear()
    assert lab("page", "--experiments", "none").exit_code == 0
    assert done == ["page"]
    assert lab("page", "--experiments", "drift,luck").exit_code == 2
