"""The process from which Spark forks its Python workers, with the engine loaded before the first fork.

Spark starts it as ``python -m sluice.statistics.worker_daemon`` (`spark.python.daemon.module`). Without it
each worker imports Arrow and the engine and loads the compiled kernels by itself: 3 s of CPU before its first
line.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import pyarrow as pa

from sluice.statistics.warm import warm


def load() -> None:
    """Import and run what the workers will, on this thread alone: no pool may have begun before a fork."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    warm()


def lighten() -> None:
    """Spare a worker what it does for each task besides the task: 0.2 s of a core, most of a small batch.

    Spark puts two archives on the path, pyspark.zip and a jar, and lets Python list what they contain again
    before each task, though the installed packages have the same. After each task it collects garbage,
    among all that was loaded here and never becomes any.
    """
    sys.path[:] = [path for path in sys.path if not Path(path).is_file()]
    sys.path_importer_cache.clear()
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    from pyspark import daemon

    load()
    lighten()
    daemon.manager()
