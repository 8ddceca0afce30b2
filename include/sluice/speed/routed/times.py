"""How long a worker takes for a tuple of a task (t_i in paper 001).

The times are measured in each batch and smoothed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sluice.runtime.arrays import Floats, Ints

if TYPE_CHECKING:
    from sluice.grouping.base import WorkerCluster

#: After this many batches a batch counts half as much. This is long enough that the last garbage collection
#: does not decide a plan, and short enough to follow a machine that gets a new neighbour within seconds.
HALF_LIFE = 8.0
#: A worker counts as if it had also worked this long at the mean speed. A batch's fixed cost (a first call, a
#: pause, a neighbour) is up to tens of milliseconds, and must not make a worker look slow. A worker that is
#: slow shows it over seconds of work; for one with less to do the correction can wait.
PRIOR_SECONDS = 0.1
#: A worker's time stays within this many times the mean, so that none is left out: nothing would be measured
#: of it then.
RANGE = 8.0


class WorkerTimes:
    """The times of one task's workers.

    Worker i is partition i of the second stage, wherever Spark runs it. Where executors are alike, all times
    become the same. Where one is slow, Spark mostly gives it the same partitions.
    """

    def __init__(self, workers: int) -> None:
        self._tuples, self._seconds = np.zeros(workers), np.zeros(workers)

    def add(self, tuples: Ints, seconds: Floats) -> None:
        """Add a batch's tuples and seconds by worker, both of shape (workers,)."""
        kept = 0.5 ** (1 / HALF_LIFE)
        self._tuples = self._tuples * kept + tuples
        self._seconds = self._seconds * kept + seconds

    @property
    def cluster(self) -> WorkerCluster:
        """The workers with their times, in seconds a tuple; all alike until some are measured."""
        from sluice.grouping.base import WorkerCluster

        total = float(self._tuples.sum())
        mean = float(self._seconds.sum()) / total if total else 0.0
        if mean <= 0:
            return WorkerCluster.alike(len(self._tuples))
        times = (self._seconds + PRIOR_SECONDS) / (self._tuples + PRIOR_SECONDS / mean)
        return WorkerCluster(tuple(np.clip(times, mean / RANGE, mean * RANGE).tolist()))
