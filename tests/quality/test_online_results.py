import re

from hypothesis import given
from hypothesis import strategies as st

from sluice.quality.online_results import ends_near

PATTERN = re.compile(r"RowFilter\(=, 'regexstring:(.*)'\)")


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
