"""A source's model of a worker's load: what it sent there itself, times the worker's time.

A source asks no worker. Its own counts suffice: if every source balances what it sends, the sum is balanced
(Nasir et al. 2015; paper 000, section 3.2). With workers of unequal speed the load is t_i * m_i (paper 001,
section 3.2). Own counts alone are the same with every t_i = 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluice.grouping.base import WorkerCluster
from sluice.grouping.compiled import step
from sluice.runtime.arrays import Floats, Ints


class SourceLoad(NamedTuple):
    """A source's view of its workers' load.

    sent: tuples that this source sent to each worker (m_i), shape (workers,).
    times: completion time of a tuple at each worker (t_i), shape (workers,); `retime` changes them.
    first: the worker at which a search of all workers begins. It differs between sources, because sources
    with few tuples would otherwise all send them to worker 0.
    """

    sent: Ints
    times: Floats
    first: int


def own_counts(cluster: WorkerCluster, source: int = 0) -> SourceLoad:
    """Load in tuples."""
    return SourceLoad(np.zeros(cluster.workers, np.int64), np.ones(cluster.workers), source % cluster.workers)


def completion_times(cluster: WorkerCluster, source: int = 0) -> SourceLoad:
    """Load in the cluster's unit of time."""
    times = np.array(cluster.times, np.float64)
    return SourceLoad(np.zeros(cluster.workers, np.int64), times, source % cluster.workers)


def retime(load: SourceLoad, cluster: WorkerCluster) -> None:
    """Use the workers' times as they were measured last."""
    load.times[:] = cluster.times


@step
def load_of(load: SourceLoad, worker: int) -> float:
    """A worker's load, t_i * m_i."""
    return load.sent[worker] * load.times[worker]  # type: ignore[no-any-return]
