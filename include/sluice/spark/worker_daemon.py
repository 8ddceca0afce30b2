"""The process that Spark forks its Python workers from, with the engine already loaded.

Spark starts it as ``python -m sluice.spark.worker_daemon`` (`spark.python.daemon.module`). Without it
each worker imports Arrow and the engine and loads the compiled kernels by itself, which takes 3 s of CPU time
before its first line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from sluice.metrics import load_team
from sluice.runtime import garbage
from sluice.spark.warm import warm


def prepare(load: Callable[[], None]) -> None:
    """Load all that workers need, on this thread alone: no thread pool may start before a fork.

    This saves each Spark task 0.2 s of a core. Spark puts two archives on the path, pyspark.zip and a jar,
    and has Python list their contents again before each task, although the installed packages have the same.
    The archives are removed from the path before anything of pyspark is imported, because its modules would
    bring them back. After each task Spark collects garbage; what is loaded here is excluded from that.
    """
    sys.path[:] = [path for path in sys.path if not Path(path).is_file()]
    sys.path_importer_cache.clear()  # Python has cached what it found in the archives
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    load_team()
    load()
    import kafka  # noqa: F401 - the speed layer's workers read lines, and read and write state
    import pandas  # noqa: F401 - Spark's worker imports it even when it handles only Arrow
    import psycopg2  # noqa: F401
    import pyarrow.parquet  # noqa: F401 - the nightly run's workers read and write Parquet themselves
    import pyspark.worker  # noqa: F401

    import sluice.storage.hbase
    import sluice.storage.tables.commits  # noqa: F401

    garbage.loaded()


if __name__ == "__main__":
    prepare(warm)
    from pyspark import daemon

    daemon.manager()
