"""Deletes what processes of Spark left behind when they were killed: files of shuffles, copies of jars.

Spark deletes a process's own files when it ends, and not when it is killed. A file's name does not say whose
it is. But what is older than every process of Spark that runs here is of none of them.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import psutil

from sluice.runtime.settings import Settings

#: In the instance's directory: where sessions have their files, and where their JVMs do.
FOLDERS = ("spark/tmp", "tmp/spark")
NAMES = ("blockmgr-*", "spark-*")
# A process's start is computed from the system clock, which may be set between two readings.
CLOCK_SECONDS = 60.0


def delete_leftovers(settings: Settings) -> int:
    """Delete what no running process can use; returns how many folders went."""
    oldest = _oldest(settings)
    gone = 0
    for folder in FOLDERS:
        for name in NAMES:
            for path in (settings.home / folder).glob(name):
                if path.lstat().st_ctime < oldest - CLOCK_SECONDS:
                    shutil.rmtree(path, ignore_errors=True)
                    gone += not path.exists()
    return gone


def _oldest(settings: Settings) -> float:
    """When the oldest process began that has this instance's folder for Spark in its command; now if none."""
    starts = [time.time()]
    scratch = str(settings.home / Path(FOLDERS[1]))
    for process in psutil.process_iter(["cmdline", "create_time"]):
        if any(scratch in word for word in process.info["cmdline"] or ()):
            starts.append(process.info["create_time"])
    return min(starts)
