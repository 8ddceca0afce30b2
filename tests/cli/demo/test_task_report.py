"""A task's part of the demo's report, made of the tables of both layers."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from sluice.cli.demo.report import MetricTotal, TaskReport
from sluice.cli.demo.task_report import LONGEST, over_all, task_report
from sluice.results.layer_results import each_result
from sluice.tasks import ActiveTask, TaskSpec
from tests.engine.samples import BYTES, spec
from tests.results.layers_by_hand import Values, offline_table, online_table

HOUR = 3_600_000
DAY = 24 * HOUR
TASK = ActiveTask(1, 3, spec(period="1h", measure=BYTES, metrics=["count", "sum", "avg", "max", "top1"]))


def compared(online: Values, offline: Values, task: ActiveTask = TASK, **more: Any) -> TaskReport:
    return task_report(task, online_table(task, online), offline_table(task, offline), **more)


def test_it_has_the_totals_of_both_layers_and_names_what_differs_in_order_of_time() -> None:
    online = {
        (HOUR, ("200",)): {"count": 10, "sum": 1, "max": 5},
        (0, ("404",)): {"count": 2, "avg": 1.5},
        (9 * HOUR, ("200",)): {"count": 1, "top1": [["/a", 3]]},
    }
    offline = {
        (HOUR, ("200",)): {"count": 11.0, "sum": 1.0},
        (0, ("404",)): {"count": 2.0, "avg": 1.5},
        (9 * HOUR, ("200",)): {"count": 1.0, "top1": [["/b", 3]]},
        (0, ("200",)): {"sum": 0.5},
    }
    found = compared(online, offline)
    assert (found.name, found.version, found.series, found.results) == (TASK.spec.name, 3, 2, 7)
    assert (found.online_total, found.offline_total, found.differing, found.agrees) == (13, 14, 4, False)
    assert found.metrics == [
        MetricTotal("count", 3, 13, 14, 1, "equal"),
        MetricTotal("sum", 1, 1, 1.5, 1, "equal"),
        MetricTotal("avg", 1, None, None, 0, "equal"),
        MetricTotal("max", 1, 5, None, 1, "equal"),
        MetricTotal("top1", 1, None, None, 1, "within stated errors"),
    ]
    name = TASK.spec.name
    assert found.examples == [
        f"{name} sum of 200 at 0: online null, offline 0.5",
        f"{name} count of 200 at {HOUR}: online 10, offline 11.0",
        f"{name} max of 200 at {HOUR}: online 5, offline null",
        f'{name} top1 of 200 at {9 * HOUR}: online [["/a", 3]], offline [["/b", 3]]',
    ]


def test_a_total_of_integers_is_exact() -> None:
    large = {(hour * HOUR, ("200",)): {"count": 2**60 + 1, "sum": 2} for hour in range(3)}
    assert over_all(list(each_result(online_table(TASK, large))), "count") == 3 * (2**60 + 1)
    assert over_all([], "count") is None


def test_only_the_beginning_of_a_long_list_is_shown() -> None:
    series = (0, ("200",))
    found = compared({series: {"top1": [["/" + "x" * 500, 3]]}}, {series: {"top1": [["/", 3]]}})
    (example,) = found.examples
    shown = example.partition("online ")[2].partition(", offline")[0]
    assert len(shown) == LONGEST + len("...")
    assert shown.endswith("xxx...")


@pytest.mark.parametrize(
    ("zone", "period", "left"),
    [
        ("UTC", "1h", [0, DAY, 3 * DAY]),
        # The local days of 3 and 4 January begin at 23:00 UTC of the day before.
        ("Europe/Berlin", "1d", [-HOUR, DAY - HOUR]),
    ],
)
def test_periods_that_touch_a_day_are_left_out_in_the_tasks_time_zone(
    zone: str, period: str, left: list[int]
) -> None:
    own = TaskSpec.model_validate({**TASK.spec.model_dump(), "period": period, "timezone": zone})
    shift = -HOUR if period == "1d" else 0
    values = {(number * DAY + shift, ("200",)): {"count": 1} for number in range(4)}
    task = ActiveTask(1, 1, own)
    found = compared(values, {}, task, left_out=[date(1970, 1, 3)])
    assert [int(each.partition(" at ")[2].partition(":")[0]) for each in found.examples] == left
    assert found.results == len(left)
