"""A second process is refused while the first one runs, and not after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.runtime.one_at_a_time import one_at_a_time


def test_a_second_one_is_refused_until_the_first_one_has_ended(tmp_path: Path) -> None:
    home = tmp_path / "var" / "test"
    with (
        one_at_a_time(home, RuntimeError("first")),
        pytest.raises(RuntimeError, match="wait"),
        one_at_a_time(home, RuntimeError("wait")),
    ):
        pass
    with one_at_a_time(home, RuntimeError("again")):
        assert not home.exists()
