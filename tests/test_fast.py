"""Each quick test is in the share of one process, and whatever fails fails `make fast`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fast import MARKS, quick, shares, side_by_side
from tests.marked import refused, whole

TESTS = Path(__file__).parent


@pytest.mark.parametrize("processes", [1, 2, 7, 10_000])
def test_every_file_is_in_one_share(processes: int) -> None:
    files = quick(TESTS)
    dealt = shares(files, processes)
    assert sorted(path for share in dealt for path in share) == files
    assert all(dealt)


def test_the_other_files_have_only_tests_that_are_left_out() -> None:
    others = {*TESTS.rglob("test_*.py")} - {*quick(TESTS)}
    assert len(others) > 100
    assert all(whole(path) & {"stack", "e2e", "slow", "containers"} for path in others)
    assert refused(MARKS) == {"stack", "e2e", "slow", "containers"}


@pytest.mark.parametrize(("codes", "failed"), [((0, 0, 0), 0), ((1, 0, 0), 1), ((0, 0, 2), 1)])
def test_one_that_fails_fails_the_whole_and_all_are_heard(
    codes: tuple[int, ...], failed: int, capfd: pytest.CaptureFixture[str]
) -> None:
    commands = [["sh", "-c", f"echo said {code}; exit {code}"] for code in codes]
    assert side_by_side(*commands) == failed
    assert capfd.readouterr().out.splitlines() == [f"said {code}" for code in codes]
