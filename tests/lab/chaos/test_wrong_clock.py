"""A process starts again with another clock, and the one after it has the right one."""

from __future__ import annotations

import sys
import time
from configparser import RawConfigParser
from pathlib import Path

import psutil
import pytest
from supervisor.datatypes import dict_of_key_value_pairs

from sluice.runtime import detached
from sluice.runtime.settings import Settings
from sluice.stack import supervisord
from sluice.stack.catalogue import daemon
from sluice_lab.chaos import faults, wrong_clock
from sluice_lab.chaos.draws import DrawnFault, FaultKind
from sluice_lab.chaos.parts import ChaosPart, PartSort
from sluice_lab.waiting import until

JOB = ChaosPart("archiver", PartSort.JOB)
compiler = pytest.mark.skipif(bool(wrong_clock.why_not()), reason=wrong_clock.why_not())
#: Writes the time that it sees, and the one that it waits by.
CLOCK = """
import sys, time
while True:
    with open(sys.argv[1], "w") as file:
        file.write(f"{time.time()} {time.monotonic()}")
    time.sleep(0.05)
"""


def test_a_clock_is_hours_ahead_or_behind_and_the_same_chance_gives_the_same() -> None:
    found = [wrong_clock.hours(chance) for chance in range(100)]
    assert found == [wrong_clock.hours(chance) for chance in range(100)]
    assert all(1 <= abs(each) <= 12 for each in found)
    assert min(found) < 0 < max(found)


@compiler
def test_one_program_of_supervisord_gets_the_variables(tmp_path: Path) -> None:
    settings = Settings(instance="chaos", home=tmp_path)
    text = supervisord.configure(settings, [daemon("kafka"), daemon("postgres")]).read_text()
    more = wrong_clock.variables(settings, -3)
    parser = RawConfigParser()
    parser.read_string(wrong_clock.configured(text, "kafka", more))
    assert dict_of_key_value_pairs(parser["program:kafka"]["environment"]) == more
    assert [name for name in parser.sections() if "environment" in parser[name]] == ["program:kafka"]
    with pytest.raises(ValueError, match="no program 'nobody'"):
        wrong_clock.configured(text, "nobody", more)


def test_it_says_why_it_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert wrong_clock.why_not() == "there is no C compiler (Debian: apt install gcc libc6-dev)"


@compiler
@pytest.mark.slow
def test_a_job_lives_with_a_wrong_clock_and_is_killed_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "CLOCK_START_SECONDS", 0.2)  # it has no progress file, so it never works
    settings, run, seen = Settings(instance="dev", home=tmp_path), tmp_path / "run", tmp_path / "seen"

    def shown() -> tuple[float, float]:
        """By how much its clock is ahead, and by how much the one that it waits by is."""
        seen.unlink(missing_ok=True)
        text = until(lambda: seen.exists() and seen.read_text(), 20, "the process writes its time")
        wall, waits = map(float, str(text).split())
        return wall - time.time(), waits - time.monotonic()

    first = detached.start(JOB.name, [sys.executable, "-c", CLOCK, str(seen)], run=run, log=tmp_path / "log")
    ahead = []
    fault = DrawnFault(FaultKind.WRONG_CLOCK, JOB.name, 0.1, 0, overlaps=False, chance=1)
    done = faults.carry_out(settings, fault, {JOB.name: JOB}, lambda _: ahead.append(shown()))
    (wall, waits) = ahead[0]
    assert wall == pytest.approx(wrong_clock.hours(1) * 3600, abs=60)
    assert waits == pytest.approx(0, abs=60)
    assert first.pid not in done.killed
    assert len(done.killed) == 1
    until(lambda: not any(map(psutil.pid_exists, done.killed)) or not detached.adopt(JOB.name, run), 10)
