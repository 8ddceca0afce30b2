from __future__ import annotations

import polars as pl
import pytest

from sluice.tasks.expressions import BadPattern, groups


@pytest.mark.parametrize(
    ("pattern", "count"),
    [("a", 0), ("(a)", 1), ("(a)(?:b)(?P<n>c)", 2), ("(?x) (a) # one", 1), ("\\((a)\\)", 1)],
)
def test_groups_are_counted(pattern: str, count: int) -> None:
    assert groups(pattern) == count


@pytest.mark.parametrize("pattern", ["(", "[a", "\\", "(?=a)", "(?!a)", "(?<=a)b", "(a)\\1", "a{1000}{1000}"])
def test_what_the_engine_cannot_do_is_refused_in_one_line(pattern: str) -> None:
    with pytest.raises(BadPattern) as error:
        groups(pattern)
    assert "\n" not in str(error.value)
    assert "This error occurred" not in str(error.value)


def test_a_hostile_pattern_takes_linear_time() -> None:
    pattern = "^(a+)+$"
    assert groups(pattern) == 1
    # A backtracking engine would need 2^100000 steps and never end.
    assert not pl.Series(["a" * 100_000 + "!"]).str.contains(pattern)[0]
