"""The process from which Spark forks its Python workers, with the engine loaded before the first fork.

Spark starts it as ``python -m sluice.statistics.worker_daemon`` (`spark.python.daemon.module`). Without it
each worker imports Arrow and the engine and loads the compiled kernels by itself: 3 s of CPU before its first
line.
"""

from __future__ import annotations

import pyarrow as pa

from sluice.statistics.warm import warm


def load() -> None:
    """Import and run what the workers will, on this thread alone: no pool may have begun before a fork."""
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    warm()


if __name__ == "__main__":
    from pyspark import daemon

    load()
    daemon.manager()
