"""Clusters to route to: how long a tuple takes at each worker (t_i of paper 001)."""

from __future__ import annotations

import numpy as np

from sluice.grouping.base import WorkerCluster

#: Microseconds from a source to a worker in the same process, on the same machine, in the same rack, and
#: anywhere else (paper 001, table 1).
DISTANCES = (0.1, 20.0, 200.0, 350.0)
SERVICE = 100.0  # microseconds of work a tuple; near workers are then some four times as fast as far ones
SLOWEST = 4.0


def equal(workers: int) -> WorkerCluster:
    return WorkerCluster.alike(workers)


def one_slow(workers: int) -> WorkerCluster:
    """The last worker takes four times as long as each of the others."""
    return WorkerCluster((1.0,) * (workers - 1) + (SLOWEST,))


def spread(workers: int) -> WorkerCluster:
    """Times spread evenly from 1 to 4."""
    return WorkerCluster(tuple(np.linspace(1.0, SLOWEST, workers).tolist()))


def network(workers: int, service: float = SERVICE) -> WorkerCluster:
    """Service plus network distance in microseconds, by the distances of paper 001.

    A quarter of the workers is at each distance. The paper does not say how many of its workers were at which
    distance; quarters are a choice.
    """
    quarter = np.arange(workers) * len(DISTANCES) // workers
    return WorkerCluster(tuple((service + np.asarray(DISTANCES)[quarter]).tolist()))
