"""The report of a run: its conclusion, its tables, its document, and the page made of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sluice_lab.chaos import report
from sluice_lab.chaos.report import BEGIN, END, ChaosReport, FaultRecord, NoFigures
from sluice_lab.chaos.truth import TaskVerdict

RIGHT = TaskVerdict("hits_by_status", "online", 10, 0, 0, 0)


def fault(kind: str, part: str, own: float | None, whole: float | None, **more: object) -> FaultRecord:
    record = FaultRecord(kind, part, "2026-11-28T22:00:00+00:00", 0.0, False, own, whole)
    return replace(record, **more)  # type: ignore[arg-type]


def held() -> ChaosReport:
    faults = [
        fault("kill", "kafka", 4.0, 6.0),
        fault("stop", "watch", 1.0, 2.0),
        fault("kill", "hbase", 20, 40),
    ]
    return ChaosReport(7, 3, 60.0, lines=1000, minutes=4.2, faults=faults, verdicts=[RIGHT])


def test_a_run_holds_if_all_recovered_and_every_line_counted_once() -> None:
    assert held().ok
    assert held().conclusion == "held: 3 of 3 faults; lost 0, doubled 0, differing results 0"


@pytest.mark.parametrize(
    "change",
    [
        {"verdicts": [replace(RIGHT, lost=1)]},
        {"verdicts": [replace(RIGHT, doubled=1)]},
        {"verdicts": [RIGHT, replace(RIGHT, differing=1)]},
        {"verdicts": []},
        {"planned": 4},
        {"problems": ["the platform did not recover"]},
        {"faults": [fault("kill", "kafka", 1.0, None)] * 3},
    ],
)
def test_anything_else_fails(change: dict[str, object]) -> None:
    failed = replace(held(), **change)  # type: ignore[arg-type]
    assert not failed.ok
    assert failed.conclusion.startswith("FAILED")


def test_the_tables_count_and_time_faults() -> None:
    text = report.markdown(held())
    assert "| part | kill | stop |" in text
    assert "| kafka | 1 |  |" in text
    assert "| kill | 2 | 12 | 20 | 23 | 40 | 0 |" in text
    assert "| watch | 1 | 1 | 1 | 2 | 2 | 0 |" in text
    assert "| hits_by_status | online | 10 | 0 | 0 | 0 |" in text


def test_what_was_left_out_mended_or_wrong_is_named() -> None:
    one = held()
    one.left_out["partition"], one.taken, one.unarchived = "there is no nft", 12, 5
    one.repaired.append("9 lines of partition 1, from 40")
    one.problems.append("drain: TimeoutError")
    text = report.markdown(one)
    assert "Left out, partition: there is no nft." in text
    assert "Repaired in the archive: 9 lines of partition 1" in text
    assert "PROBLEM: drain: TimeoutError" in text
    assert "- 5 records were lost in Kafka before they were archived." in text
    assert "12 lines were taken from Kafka" in text


def test_a_report_is_read_as_it_was_written(tmp_path: Path) -> None:
    one = held()
    one.faults.append(fault("power cut", "kafka", 3.0, 9.0, cut={"data/kafka/logs-0/0.log": 5000}))
    one.verdicts.append(replace(RIGHT, examples=("a",)))
    path = one.write(tmp_path / "new")
    assert report.read(path) == one
    assert json.loads(path.read_text())["ok"] is one.ok
    assert (tmp_path / "new" / "chaos.md").read_text() == report.markdown(one)


def test_the_page_gets_the_figures_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Before\n{BEGIN}\nold\n{END}\nafter\n")
    report.write_page(page, [held()])
    report.write_page(page, [held()])
    text = page.read_text()
    assert text.startswith(f"# Before\n{BEGIN}\nSeed 7:")
    assert text.endswith(f"{END}\nafter\n")
    assert "old" not in text
    assert text.count("Seed 7") == 1


def test_the_page_of_several_runs_has_each_run_and_the_sums_of_all() -> None:
    second = replace(held(), seed=8, lines=500, verdicts=[replace(RIGHT, results=7, lost=2)])
    text = report.markdown(held(), second)
    assert "**6 faults in 2 runs, while 1,500 lines were written: lost 2, doubled 0, differing" in text
    assert text.index("Seed 7:") < text.index("Seed 8:")
    assert "| kafka | 2 |  |" in text
    assert "| kill | 4 | 12 | 20 | 23 | 40 | 0 |" in text
    assert "| hits_by_status | online | 17 | 2 | 0 | 0 |" in text


def test_what_is_no_report_and_no_page_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "other"
    with pytest.raises(NoFigures, match="there is no report"):
        report.read(other)
    other.write_text("{}")
    with pytest.raises(NoFigures, match="is no report"):
        report.read(other)
    with pytest.raises(NoFigures, match="no place for figures"):
        report.write_page(other, [held()])
