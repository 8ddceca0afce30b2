"""The bench against Flink SQL, without Flink."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice_lab.bench import flink, flink_sql, workload
from sluice_lab.bench.flink import FormTimes


def test_the_last_change_of_a_printed_row_counts() -> None:
    printed = [
        "1> +I[0, 1431856800000, 2, 1, 3.5, 3.5, 3.5, GET_a, b]\n",
        "2> +I[1, 1431856800000, 1, 0, null, null, null, de]\n",
        "1> -U[0, 1431856800000, 2, 1, 3.5, 3.5, 3.5, GET_a, b]\n",
        "1> +U[0, 1431856800000, 3, 2, 4.5, 1.0, 3.5, GET_a, b]\n",
        "2> +I[1, 1431856800000, 9, 0, null, null, null, fr]\n",
        "2> -D[1, 1431856800000, 9, 0, null, null, null, fr]\n",
        "done 0.100 0.200\n",
    ]
    assert flink_sql.rows(printed).to_pylist() == [
        {"task": 0, "start": 1431856800000, "key": "GET_a, b", "lines": 3, "measured": 2,
         "sum": 4.5, "min": 1.0, "max": 3.5},
        {"task": 1, "start": 1431856800000, "key": "de", "lines": 1, "measured": 0,
         "sum": None, "min": None, "max": None},
    ]  # fmt: skip


@pytest.mark.parametrize("form", flink_sql.FORMS)
def test_a_job_says_how_it_runs_what_it_counts_and_where_results_go(form: str) -> None:
    specs = workload.tasks(3)
    job = flink_sql.FORMS[form](Path("/log"), specs, "print")
    assert job[0] == ("streaming" if "stream" in form else "batch")
    assert sum(line.startswith("TASK\t") for line in job) == 3
    assert all(len(line.split("\t")) == 7 for line in job if line.startswith("TASK\t"))
    assert sum(line.startswith("INSERT\t") for line in job) == (3 if form.startswith("statements") else 1)
    assert any("'path' = 'file:///log'" in line for line in job)
    assert any("'connector' = 'print'" in line for line in job)
    assert not any("\n" in line for line in job)


def test_the_bars_compare_with_the_best_form() -> None:
    def measured(sluice: float, best: float) -> FormTimes:
        alone = {"explode": best, "statements": 2 * best}
        times = {"sluice": [sluice, 1.1 * sluice], "explode": [best, 1.1 * best]}
        return FormTimes(alone, times, times)

    found = flink.outcome({1: measured(2.0, 1.9), 64: measured(3.0, 30.0)}, 2_000_000, 10, quick=False)
    assert [(bar.bar[:8], round(bar.figure, 2), bar.holds) for bar in found.bars] == [
        ("64 tasks", 10.0, True),
        ("1 task: ", 0.95, False),
    ]
    assert found.tables[0].rows[1][3] is None  # a form that was not run
