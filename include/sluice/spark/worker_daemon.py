"""The process from which Spark forks its Python workers, with the engine loaded before the first fork.

Spark starts it as ``python -m sluice.spark.worker_daemon`` (`spark.python.daemon.module`). Without it
each worker imports Arrow and the engine and loads the compiled kernels by itself: 3 s of CPU before its first
line.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from sluice.metrics import load_team
from sluice.spark.warm import warm


def prepare(load: Callable[[], None]) -> None:
    """All that workers are to have, on this thread alone: no pool may have begun before a fork.

    It spares them what they would do for each task besides the task, 0.2 s of a core. Spark puts two archives
    on the path, pyspark.zip and a jar, and lets Python list what they contain again before each task, though
    the installed packages have the same; they go before anything of pyspark is imported, or its modules would
    bring them back. After each task Spark collects garbage, and none of what is loaded here becomes any.
    """
    sys.path[:] = [path for path in sys.path if not Path(path).is_file()]
    sys.path_importer_cache.clear()  # what was found of them by now
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    load()
    import pandas  # noqa: F401 - Spark's worker has need of it, even of Arrow alone
    import pyspark.worker  # noqa: F401

    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    load_team()
    prepare(warm)
    from pyspark import daemon

    daemon.manager()
