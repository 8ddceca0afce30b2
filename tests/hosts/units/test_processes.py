"""What the kernel says is read, from any host; a host may answer anything."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice_hosts.units import processes, speed
from sluice_hosts.units.processes import ReadingError
from sluice_lab.waiting import until

#: A machine of two cores, up for 1,000 s, with process 7 (a command with spaces and brackets), without 8.
SAID = (
    "100\n2\n1000.00 1500.00\ncpu  1000 0 500 90000 50 20 30 0 0 0\n"
    "7 (a ) b) S 1 7 7 0 -1 4194560 0 0 0 0 250 50 0 0 20 0 1 0 90000 0 0\n\n"
)


def test_a_reading_has_cores_busy_seconds_and_the_processes_that_live() -> None:
    found = processes.parse(SAID, [7, 8])
    assert (found.cores, found.busy) == (2, 15.5)
    assert found.processes == {7: processes.Process("7.90000", 3.0, 100.0)}


def test_what_a_process_started_counts_for_it_also_what_has_ended() -> None:
    """Spark's JVM (8) is a driver's, and so is a worker (9) that is not yet waited for."""
    stat = "{0} (java) {1} 1 {0} {2} 0 -1 0 0 0 0 0 {3} 20 0 1 0 {4} 0 0\n"
    said = SAID.partition("7 (")[0]
    said += stat.format(7, "S", 7, "100 50 30 20", 90000)
    said += stat.format(8, "S", 7, "1000 200 0 0", 91000) + stat.format(9, "Z", 7, "40 10 0 0", 91000)
    said += stat.format(20, "S", 20, "9000 0 0 0", 50) + stat.format(21, "Z", 20, "5 0 0 0", 60)
    found = processes.parse(said, [7, 21])
    assert found.processes == {7: processes.Process("7.90000", 14.5, 100.0)}


@pytest.mark.slow
def test_the_session_of_a_process_is_read_and_no_other() -> None:
    work = "import time\nwhile time.process_time() < 0.3: pass\ntime.sleep(60)"
    busy = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}])"
    unit = subprocess.Popen([sys.executable, "-c", busy], start_new_session=True)
    try:

        def counted() -> bool:
            return processes.read(processes.here, [unit.pid]).processes[unit.pid].cpu >= 0.3

        until(counted, what="the child counts for its parent")
        assert psutil.Process(unit.pid).cpu_times().user < 0.3
    finally:
        os.killpg(unit.pid, signal.SIGKILL)
        unit.wait()


def test_this_process_is_read_as_others_know_it() -> None:
    begun = time.process_time()
    while time.process_time() < begun + 0.05:
        pass
    found = processes.read(processes.here, [os.getpid(), 2**22 + 1])
    mine = found.processes[os.getpid()]
    times = psutil.Process().cpu_times()
    assert mine.cpu >= times.user + times.system - 0.5, "and what it started"
    assert mine.age == pytest.approx(time.time() - psutil.Process().create_time(), abs=5)
    assert found.busy > 0
    assert len(found.processes) == 1


def test_a_command_here_that_hangs_is_no_reading() -> None:
    with pytest.raises(ReadingError, match="sleep did not end within"):
        processes.here("sleep", "60", seconds=0.1)


@given(st.text(alphabet="0123456789. \n()SZcpu-") | st.text())
def test_nonsense_is_refused(text: str) -> None:
    with contextlib.suppress(ReadingError):
        processes.parse(text, [1, 2])


def test_a_core_is_measured_by_its_cpu_time() -> None:
    def run(*_: str, seconds: float) -> str:
        return "0m0.000000s 0m0.010000s\n0m0.900000s 0m0.124000s\n"

    assert speed.measure(run) == pytest.approx(256 / 1.024 / 500)


@pytest.mark.parametrize(
    "said", ["", "0m0.0s 0m0.0s\n0m0.0s 0m0.0s\n", "0m1s 0m1s\n", "0m0s 0m0s\n0m1.1.1s 0m1s"]
)
def test_what_was_not_measured_is_not_known(said: str) -> None:
    assert speed.measure(lambda *_, seconds: said) is None
