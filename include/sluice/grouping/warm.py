"""Compile a strategy's kernels before a batch needs them; numba keeps the code on disk."""

from __future__ import annotations

import numpy as np

from sluice.grouping import strategy
from sluice.grouping.base import Counts, WorkerCluster


def warm(name: str) -> None:
    """Route two made-up batches, with the default parameters."""
    made = strategy(name)
    if made.combines:
        return
    cluster, keys = WorkerCluster.alike(2), np.arange(1_000, dtype=np.uint64)
    router = made.router(cluster)
    for _ in range(2):
        router.route(keys)
        made.boundary([router], cluster, Counts.of(keys))
