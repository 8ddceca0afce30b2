import re

from hypothesis import given
from hypothesis import strategies as st

from sluice.engine.rowkey import RowKey
from sluice.results.compare import ONLINE_RESULTS
from sluice.results.online_results import ends_near, online_results
from sluice.tasks import ActiveTask
from tests.engine.samples import spec
from tests.quality.stores import FILTER as PATTERN
from tests.quality.stores import StoredHBase


@given(
    st.integers(-86_400_000, 5_000_000_000_000),
    st.integers(1, 40 * 86_400_000),
    st.floats(0, 1, exclude_max=True),
)
def test_no_period_of_the_range_is_filtered_out(start: int, length: int, where: float) -> None:
    pattern = PATTERN.fullmatch(ends_near(range(start, start + length)))
    assert pattern is not None
    assert re.search(pattern[1], f"1v1_path_/a_count_{start + int(where * length)}")


def test_results_of_a_clock_at_zero_east_of_greenwich_are_read() -> None:
    day = range(-86_400_000, 0)
    pattern = PATTERN.fullmatch(ends_near(day))
    assert pattern is not None
    assert re.search(pattern[1], "1v1_count_-3600000")
    assert not re.search(pattern[1], "1v1_count_1431820800000")


def test_other_days_are_filtered_out() -> None:
    day = 1431820800000  # 2015-05-17
    pattern = PATTERN.fullmatch(ends_near(range(day, day + 86_400_000)))
    assert pattern is not None
    for days in (-2, 2, 30):
        assert not re.search(pattern[1], f"1v1_count_{day + days * 86_400_000}")


DAY = 1431820800000  # 2015-05-17
DAY_MS = 86_400_000


@given(st.lists(st.integers(-5_000_000_000_000, 5_000_000_000_000), max_size=3))
def test_single_periods_are_named_one_by_one(starts: list[int]) -> None:
    pattern = PATTERN.fullmatch(ends_near(range(0), starts))
    assert pattern is not None
    for start in starts:
        assert re.search(pattern[1], f"1v1_path_/a_count_{start}")
        assert (start + 1 in starts) == bool(re.search(pattern[1], f"1v1_path_/a_count_{start + 1}"))


def row(start: int, status: str = "200", metric: str = "count") -> bytes:
    return RowKey(1, 1, (("status", status),), metric, start).encode()


def test_one_scan_reads_a_days_periods_and_those_that_it_shares() -> None:
    week = DAY - 3 * DAY_MS
    table = StoredHBase(
        {
            row(DAY): {b"r:o": b"1", b"r:f": b"9"},
            row(DAY + DAY_MS - 60_000, metric="p95"): {b"r:o": b"2.5", b"r:oe": b"0.25"},
            row(DAY + DAY_MS): {b"r:o": b"3"},
            row(DAY - 1): {b"r:o": b"4"},
            row(week): {b"r:o": b"5"},
            row(week + 1): {b"r:o": b"6"},
            row(DAY, status="404"): {b"r:f": b"7"},  # only a final cell: nothing was counted online
        }
    )
    found = online_results(table, ActiveTask(1, 1, spec()), range(DAY, DAY + DAY_MS), [week])
    assert found.schema == ONLINE_RESULTS
    assert found.to_pylist() == [
        {"row": row(week), "text": "5", "error": 0.0},
        {"row": row(DAY), "text": "1", "error": 0.0},
        {"row": row(DAY + DAY_MS - 60_000, metric="p95"), "text": "2.5", "error": 0.25},
    ]
    assert len(table.scans) == 1
