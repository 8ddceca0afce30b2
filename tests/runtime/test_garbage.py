"""A process that says it is loaded searches for garbage seldom, and not in what it loaded."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc
from sluice.runtime import garbage

class Cycle:
    pass

before = len(gc.get_objects())
garbage.loaded()
assert gc.get_freeze_count() > 0.9 * before, "what was there is searched"
assert len(gc.get_objects()) < before / 10, "what was there is searched"
runs = sum(each["collections"] for each in gc.get_stats())
kept = [[] for _ in range(garbage.NEW_OBJECTS // 2)]
assert sum(each["collections"] for each in gc.get_stats()) == runs, "few new objects, and it searched"
import weakref
cycle = Cycle()
cycle.itself = cycle
gone = weakref.ref(cycle)
del cycle
kept += [[] for _ in range(garbage.NEW_OBJECTS)]
assert gone() is None, "cyclic garbage stays"
"""


def test_what_is_loaded_is_never_searched_and_new_garbage_is_still_found() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
