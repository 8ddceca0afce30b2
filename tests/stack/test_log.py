"""What the end of a daemon's log says."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.runtime.settings import Settings
from sluice.stack.entry import check
from sluice.stack.log import END_BYTES, log_file, log_tail


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = Settings(home=tmp_path, instance="test", port_base=64_000)  # where no daemon is
    log_file(made, "hbase").parent.mkdir(parents=True)
    return made


def test_the_tail_of_a_log_is_its_last_lines(settings: Settings) -> None:
    assert log_tail(settings, "hbase") == []
    log_file(settings, "hbase").write_text("".join(f"line {n}\n" for n in range(10_000)))
    assert log_tail(settings, "hbase", 3) == ["line 9997", "line 9998", "line 9999"]


def test_what_is_wrong_with_a_daemon_that_ran_out_of_memory_says_so(settings: Settings) -> None:
    starting = "INFO starting\n" * 1_000
    said = "Terminating due to java.lang.OutOfMemoryError: Java heap space\n"
    assert "memory" not in str(check(settings, "hbase"))
    log_file(settings, "hbase").write_text(said + starting)
    assert str(check(settings, "hbase")).endswith(" (it ran out of memory: Java heap space)")
    log_file(settings, "hbase").write_text(said + "x" * END_BYTES)
    assert "memory" not in str(check(settings, "hbase"))
