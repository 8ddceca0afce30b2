"""The results of one layer, read one by one from either store's table."""

from __future__ import annotations

import datetime as dt

import pytest

from sluice.engine.rowkey import BadRowKey
from sluice.results.compare import ONLINE_RESULTS
from sluice.results.layer_results import _touches, each_result, read_value
from sluice.results.online_results import online_results
from sluice.results.periods import ALWAYS
from sluice.runtime.days import DAY_MS, begin_ms
from sluice.tasks import ActiveTask
from tests.engine.samples import BYTES, spec
from tests.quality.stores import StoredHBase
from tests.results.by_series import by_series
from tests.results.layers_by_hand import offline_table, online_table

TASK = ActiveTask(1, 1, spec(measure=BYTES, metrics=["count", "p95", "top2"]))
HOUR = 3_600_000
VALUES = {
    (HOUR, ("a_b",)): {"count": 2, "p95": 10.5, "top2": [["/a", 7], ["/b", 2]]},
    (0, ("200",)): {"count": 9},
}


def test_both_layers_tables_have_the_same_results() -> None:
    for table in (online_table, offline_table):
        found = by_series(TASK, each_result(table(TASK, VALUES, {"p95": 0.25})))
        assert found.values == VALUES
        assert found.errors == {(HOUR, ("a_b",)): {"p95": 0.25}}


@pytest.mark.parametrize(
    ("text", "value"),
    [("7", 7), ("-7", -7), ("9007199254740993", 2**53 + 1), ("7.0", 7.0), ("[]", []), ("1e+20", 1e20)],
)
def test_an_integer_stays_one_however_large(text: str, value: object) -> None:
    found = read_value(text)
    assert (found, type(found)) == (value, type(value))


def test_a_row_that_is_no_result_is_refused() -> None:
    found = ONLINE_RESULTS.empty_table().from_pylist(
        [{"row": b"1v1_oops_count_x", "text": "1", "error": 0.0}], ONLINE_RESULTS
    )
    with pytest.raises(BadRowKey, match="1v1_oops_count_x"):
        list(each_result(found))


def test_all_periods_are_read_without_a_filter() -> None:
    table = online_table(TASK, VALUES)
    rows = zip(table.column("row").to_pylist(), table.column("text").to_pylist(), strict=True)
    hbase = StoredHBase({row: {b"r:o": text.encode()} for row, text in rows})
    assert by_series(TASK, each_result(online_results(hbase, TASK, ALWAYS))).values == VALUES
    assert hbase.scans[0]["row_filter"] is None


def test_a_period_may_have_lines_of_the_days_that_it_spans() -> None:
    day = dt.date(2015, 5, 17)
    begin = begin_ms(day)
    assert _touches(day, ALWAYS)
    assert _touches(day, range(begin + HOUR, begin + 2 * HOUR))
    assert _touches(day, range(begin - 3 * DAY_MS, begin - 2 * DAY_MS))  # a week may have begun then
    assert not _touches(day, range(begin + DAY_MS, begin + 2 * DAY_MS))
    assert not _touches(day, range(begin - 400 * DAY_MS, begin - 399 * DAY_MS))
