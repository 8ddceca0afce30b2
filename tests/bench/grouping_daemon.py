"""The process from which Spark forks its Python workers here: ``python -m tests.bench.grouping_daemon``.

All that workers need is loaded before the first fork. By itself each of 32 would take seconds of a core to
import Arrow, pandas and numba and to load the compiled loops.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import numpy as np


def load() -> None:
    """Import what workers will, and compile what routes, or load it from disk.

    On this thread alone: no pool may have begun before a fork. Archives are not searched: Spark puts its own
    first, pyspark.zip and a jar, and has Python read what they contain again before each task, which takes
    0.13 s of a core. The package that is installed has the same.
    """
    sys.path[:] = [path for path in sys.path if not Path(path).is_file()]
    sys.path_importer_cache.clear()  # what was found of them by now
    import pandas  # noqa: F401 - Spark's worker has need of it, even of Arrow alone
    import pyarrow as pa
    import pyspark.worker  # noqa: F401

    from sluice.grouping.base import Cluster
    from tests.bench.grouping_contenders import rules

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    for rule in rules().values():
        rule.router(Cluster.alike(2)).route(np.arange(2, dtype=np.uint64))
    gc.freeze()  # Spark's worker collects garbage after each task: not among all of this, for 0.06 s


if __name__ == "__main__":
    load()
    from pyspark import daemon

    daemon.manager()
