import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import psutil

from sluice.stack.memory import PeakMemory, ProcessFamily, proportional_bytes
from sluice_lab.waiting import until

INSTANCE: Any = SimpleNamespace(instance="test-memory", home="/nowhere/var/test-memory")
CHILD = "import time; data = b'x' * 60_000_000; time.sleep(600)"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}], env={{}})"


def test_the_whole_family_counts_including_processes_that_lost_the_mark() -> None:
    environment = {**os.environ, "SLUICE_INSTANCE": INSTANCE.instance}
    with subprocess.Popen([sys.executable, "-c", PARENT], env=environment) as parent:
        try:
            family = ProcessFamily(INSTANCE)
            with PeakMemory(INSTANCE, every=0.1) as memory:
                until(lambda: memory.peak_bytes >= 60_000_000, what="the child counts, too")
            children = {child.pid for child in psutil.Process(parent.pid).children()}
            assert family.pids() == {parent.pid, *children}
            assert os.getpid() not in family.pids()
        finally:
            for child in psutil.Process(parent.pid).children():
                child.kill()
            parent.kill()


def test_memory_that_is_shared_is_counted_once() -> None:
    assert 0 < proportional_bytes(os.getpid()) <= psutil.Process().memory_info().rss
    assert proportional_bytes(2**30) == 0
