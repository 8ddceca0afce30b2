"""The process from which Spark forks its Python workers here: ``python -m tests.bench.grouping_daemon``.

All that workers need is loaded before the first fork. By itself each of 32 would take seconds of a core to
import Arrow, pandas and numba and to load the compiled loops.
"""

from __future__ import annotations

import numpy as np

from sluice.spark.worker_daemon import prepare


def load() -> None:
    """Import what workers will, and compile what routes, or load it from disk."""
    from sluice.grouping.base import Cluster
    from tests.bench.grouping_contenders import rules

    for rule in rules().values():
        rule.router(Cluster.alike(2)).route(np.arange(2, dtype=np.uint64))


if __name__ == "__main__":
    prepare(load)
    from pyspark import daemon

    daemon.manager()
