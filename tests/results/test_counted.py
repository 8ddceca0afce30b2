import csv
import io
import json
import re
from datetime import date
from typing import Any

from sluice.cli.format import Format, write
from sluice.results.counted import CountedResults, Difference, differences
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
HOUR = 3_600_000


SKETCHED = TaskSpec.model_validate(
    {**SPEC.model_dump(), "metrics": ["count", "unique", "p95", "top2"], "timezone": "Europe/Berlin"}
)
TOP = [["/a", 7], ["/b", 2]]


def counted(
    values: dict[Any, Any], errors: dict[Any, Any] | None = None, spec: TaskSpec = SPEC
) -> CountedResults:
    return CountedResults(ActiveTask(1, 1, spec), values, errors or {})


def test_rows_are_sorted_by_period_then_series_with_gaps_for_metrics_without_a_value() -> None:
    answer = counted(
        {(HOUR, ("/b",)): {"count": 1}, (HOUR, ("/a",)): {"count": 2, "sum": 5}, (0, ("/c",)): {"count": 3}}
    )
    assert answer.columns == ["period", "path", "count", "sum", "avg", "max"]
    rows = list(answer.rows())
    assert [row[1] for row in rows] == ["/c", "/a", "/b"]
    assert rows[1][2:] == [2, 5, None, None]


def test_a_metric_over_all_series_is_combined_by_its_own_rule() -> None:
    answer = counted(
        {(0, ("/a",)): {"count": 2, "sum": 0.5, "max": 4}, (0, ("/b",)): {"count": 1, "sum": 0.25, "max": 9}}
    )
    assert [answer.over_all(m) for m in ("count", "sum", "avg", "max")] == [3, 0.75, None, 9]


def test_periods_that_touch_a_day_are_left_out_in_the_tasks_time_zone() -> None:
    day, days = date(1970, 1, 3), {"count": 1}
    starts = [n * 24 * HOUR for n in range(4)]
    hours = counted({(start, ()): days for start in starts})
    assert hours.apart_from([]) is hours
    assert sorted(hours.apart_from([day]).values) == [(start, ()) for start in (0, 24 * HOUR, 72 * HOUR)]
    berlin = SPEC.model_copy(update={"period": "1d", "timezone": "Europe/Berlin"})
    local = {(start - HOUR, ()): days for start in starts}
    found = counted(local, {series: {"count": 0.5} for series in local}, berlin).apart_from([day])
    # The local days of 3 and 4 January begin at 23:00 UTC of the day before.
    assert sorted(found.values) == sorted(found.errors) == [(-HOUR, ()), (23 * HOUR, ())]


def test_layers_agree_on_whole_numbers_exactly_and_on_fractions_nearly() -> None:
    series = (0, ("/a",))
    near = 0.1 + 0.2
    assert not list(differences(counted({series: {"stddev": near}}), counted({series: {"stddev": 0.3}})))
    assert list(differences(counted({series: {"sum": near}}), counted({series: {"sum": 0.3}})))
    assert not list(differences(counted({series: {"count": 2}}), counted({series: {"count": 2.0}})))
    whole = list(differences(counted({series: {"sum": 10**12}}), counted({series: {"sum": 10**12 + 1}})))
    assert whole == [Difference(series, "sum", 10**12, 10**12 + 1)]


def test_a_result_that_one_layer_lacks_is_a_difference() -> None:
    a, b = (0, ("/a",)), (0, ("/b",))
    found = list(
        differences(counted({a: {"count": 1}}), counted({a: {"count": 1, "max": 3}, b: {"count": 4}}))
    )
    assert found == [Difference(a, "max", None, 3), Difference(b, "count", None, 4)]


def sketched(values: dict[str, Any], **errors: float) -> CountedResults:
    series = (1431820800000, ("/a",))
    return counted({series: values}, {series: errors}, SKETCHED)


def printed(answer: CountedResults, style: Format) -> str:
    out = io.StringIO()
    columns, rows = answer.for_people() if style is Format.TABLE else answer.for_programs()
    write(columns, rows, style, out)
    return out.getvalue()


def test_people_see_what_is_not_exact_and_programs_get_it_as_a_column() -> None:
    answer = sketched({"count": 9, "unique": 2048.0, "p95": 10.25, "top2": TOP}, unique=0.0163, p95=0.12345)
    assert re.split(" {2,}", printed(answer, Format.TABLE).splitlines()[2]) == [
        "2015-05-17T02:00:00+02:00", "/a", "9", "2048 ± 1.6%", "10.25 ± 0.123", '[["/a", 7], ["/b", 2]]',
    ]  # fmt: skip
    assert list(csv.DictReader(io.StringIO(printed(answer, Format.CSV)))) == [
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
    (row,) = json.loads(printed(answer, Format.JSON))
    assert (row["top2"], row["p95_error"]) == (TOP, 0.12345)


def test_a_missing_value_has_no_error() -> None:
    (row,) = json.loads(printed(sketched({"count": 1}), Format.JSON))
    assert row["p95"] is row["p95_error"] is None


def test_tasks_without_sketches_have_no_columns_of_errors() -> None:
    columns, _ = counted({}).for_programs()
    assert columns == ["period", "path", "count", "sum", "avg", "max"]


def test_hours_that_the_clock_shows_twice_are_told_apart() -> None:
    twice = [1445731200000, 1445734800000]  # 25 October 2015, 2:00 in Berlin, in summer and in winter time
    answer = counted({(start, ("/a",)): {"count": 1} for start in twice}, spec=SKETCHED)
    periods = [line.split(",")[0] for line in printed(answer, Format.CSV).splitlines()[1:]]
    assert periods == ["2015-10-25T02:00:00+02:00", "2015-10-25T02:00:00+01:00"]


def test_layers_agree_on_sketched_values_within_what_both_state() -> None:
    online = sketched({"p95": 10.0, "top2": TOP}, p95=1.0, top2=1.0)
    near = sketched({"p95": 11.5, "top2": [["/a", 8], ["/c", 3]]}, p95=0.5, top2=1.0)
    assert not list(differences(online, near))
    far = sketched({"p95": 11.6, "top2": [["/a", 10], ["/b", 2]]}, p95=0.5, top2=1.0)
    assert [d.metric for d in differences(online, far)] == ["p95", "top2"]


def test_lists_have_no_total() -> None:
    assert sketched({"top2": TOP, "unique": 3}).over_all("top2") is None
    assert sketched({"top2": TOP, "unique": 3}).over_all("unique") is None
