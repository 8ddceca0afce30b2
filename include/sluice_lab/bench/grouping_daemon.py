"""The process from which Spark forks its Python workers in this bench.

``python -m sluice_lab.bench.grouping_daemon`` starts it.

All that workers need is loaded before the first fork. Otherwise each of 32 workers would take seconds of a
core to import Arrow, pandas and numba and to load the compiled loops.
"""

from __future__ import annotations

import numpy as np

from sluice.spark.worker_daemon import prepare


def load() -> None:
    """Import what workers will import, and compile the routing loops or load them from disk."""
    from sluice.grouping.base import WorkerCluster
    from sluice_lab.bench.grouping_contenders import rules

    for rule in rules().values():
        rule.router(WorkerCluster.alike(2)).route(np.arange(2, dtype=np.uint64))


if __name__ == "__main__":
    prepare(load)
    from pyspark import daemon

    daemon.manager()
