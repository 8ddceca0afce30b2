from typing import Any

from sluice.cli.counted import Counted, Difference, differences
from sluice.tasks import ActiveTask, TaskSpec

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
TASK = ActiveTask(1, 1, SPEC)
HOUR = 3_600_000


def counted(values: dict[Any, Any]) -> Counted:
    return Counted(TASK, values)


def test_rows_are_sorted_by_period_then_series_with_gaps_for_metrics_without_a_value() -> None:
    answer = counted(
        {(HOUR, ("/b",)): {"count": 1}, (HOUR, ("/a",)): {"count": 2, "sum": 5}, (0, ("/c",)): {"count": 3}}
    )
    assert answer.columns == ["period", "path", "count", "sum", "avg", "max"]
    rows = list(answer.rows())
    assert [row[1] for row in rows] == ["/c", "/a", "/b"]
    assert rows[1][2:] == [2, 5, None, None]


def test_a_metric_over_all_series_is_made_as_that_metric_is() -> None:
    answer = counted(
        {(0, ("/a",)): {"count": 2, "sum": 0.5, "max": 4}, (0, ("/b",)): {"count": 1, "sum": 0.25, "max": 9}}
    )
    assert [answer.over_all(m) for m in ("count", "sum", "avg", "max")] == [3, 0.75, None, 9]


def test_layers_agree_on_whole_numbers_exactly_and_on_fractions_nearly() -> None:
    series = (0, ("/a",))
    near = 0.1 + 0.2
    assert not list(differences(counted({series: {"sum": near}}), counted({series: {"sum": 0.3}})))
    assert not list(differences(counted({series: {"count": 2}}), counted({series: {"count": 2.0}})))
    whole = list(differences(counted({series: {"sum": 10**12}}), counted({series: {"sum": 10**12 + 1}})))
    assert whole == [Difference(series, "sum", 10**12, 10**12 + 1)]


def test_a_result_that_one_layer_lacks_is_a_difference() -> None:
    a, b = (0, ("/a",)), (0, ("/b",))
    found = list(
        differences(counted({a: {"count": 1}}), counted({a: {"count": 1, "max": 3}, b: {"count": 4}}))
    )
    assert found == [Difference(a, "max", None, 3), Difference(b, "count", None, 4)]
