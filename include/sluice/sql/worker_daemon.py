"""The process that the SQL endpoint's Python workers are forked from, with the reader already loaded.

Spark starts it as ``python -m sluice.sql.worker_daemon`` (`spark.python.daemon.module`) when a statement
first reads results.
"""

from __future__ import annotations

from sluice.spark.warm import warm
from sluice.spark.worker_daemon import prepare


def load() -> None:
    """Load the kernels that make results of accumulators, and what reads both layers."""
    warm()
    import sluice.sql.planner  # noqa: F401


if __name__ == "__main__":
    prepare(load)
    from pyspark import daemon

    daemon.manager()
