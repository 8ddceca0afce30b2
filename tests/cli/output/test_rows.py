"""What `sluice results --layer online` and `--layer offline` print of a layer's results."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Mapping
from typing import Any

from sluice.cli.output.format import Format, write
from sluice.cli.output.rows import layer_for_people, layer_for_programs
from sluice.results.layer_results import each_result
from sluice.tasks import ActiveTask, TaskSpec
from tests.results.layers_by_hand import Values, online_table

SPEC = TaskSpec.model_validate(
    {
        "name": "bytes_by_path",
        "topic": "logs",
        "period": "1h",
        "dimensions": [{"name": "path", "extract": {"delimiter": " ", "index": 6}}],
        "measure": {"delimiter": " ", "index": 9},
        "metrics": ["count", "sum", "avg", "max"],
    }
)
SKETCHED = TaskSpec.model_validate(
    {**SPEC.model_dump(), "metrics": ["count", "unique", "p95", "top2"], "timezone": "Europe/Berlin"}
)
HOUR = 3_600_000
DAY = 1_431_820_800_000  # 2015-05-17
TOP = [["/a", 7], ["/b", 2]]


def printed(values: Values, style: Format, spec: TaskSpec = SKETCHED, **errors: float) -> str:
    task, out = ActiveTask(1, 1, spec), io.StringIO()
    made = layer_for_people if style is Format.TABLE else layer_for_programs
    write(*made(task, each_result(online_table(task, values, errors))), style, out)
    return out.getvalue()


def of_series(values: Mapping[str, Any], style: Format, **errors: float) -> str:
    return printed({(DAY, ("/a",)): values}, style, **errors)


def test_rows_are_sorted_by_period_then_series_with_gaps_for_metrics_without_a_value() -> None:
    values = {
        (HOUR, ("/b",)): {"count": 1},
        (HOUR, ("/a",)): {"count": 2, "sum": 5},
        (0, ("/c",)): {"count": 3},
    }
    assert printed(values, Format.CSV, SPEC).splitlines() == [
        "period,path,count,sum,avg,max",
        "1970-01-01T00:00:00Z,/c,3,,,",
        "1970-01-01T01:00:00Z,/a,2,5,,",
        "1970-01-01T01:00:00Z,/b,1,,,",
    ]


def test_people_see_what_is_not_exact_and_programs_get_it_as_a_column() -> None:
    values = {"count": 9, "unique": 2048.0, "p95": 10.25, "top2": TOP}
    errors = {"unique": 0.0163, "p95": 0.12345}
    assert re.split(" {2,}", of_series(values, Format.TABLE, **errors).splitlines()[2]) == [
        "2015-05-17T02:00:00+02:00", "/a", "9", "2048 ± 1.6%", "10.25 ± 0.123", '[["/a", 7], ["/b", 2]]',
    ]  # fmt: skip
    assert list(csv.DictReader(io.StringIO(of_series(values, Format.CSV, **errors)))) == [
        {
            "period": "2015-05-17T02:00:00+02:00",
            "path": "/a",
            "count": "9",
            "unique": "2048",
            "unique_error": "0.0163",
            "p95": "10.25",
            "p95_error": "0.12345",
            "top2": '[["/a", 7], ["/b", 2]]',
            "top2_error": "0",
        }
    ]
    (row,) = json.loads(of_series(values, Format.JSON, **errors))
    assert (row["top2"], row["p95_error"]) == (TOP, 0.12345)


def test_a_missing_value_has_no_error() -> None:
    (row,) = json.loads(of_series({"count": 1}, Format.JSON))
    assert row["p95"] is row["p95_error"] is None


def test_hours_that_the_clock_shows_twice_are_told_apart() -> None:
    twice = [1445731200000, 1445734800000]  # 25 October 2015, 2:00 in Berlin, in summer and in winter time
    text = printed({(start, ("/a",)): {"count": 1} for start in twice}, Format.CSV)
    assert [line.split(",")[0] for line in text.splitlines()[1:]] == [
        "2015-10-25T02:00:00+02:00",
        "2015-10-25T02:00:00+01:00",
    ]
