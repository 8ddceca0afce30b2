"""How long a worker takes for a tuple of a task (t_i in paper 001): measured in each batch, smoothed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sluice.runtime.arrays import Floats, Ints

if TYPE_CHECKING:
    from sluice.grouping.base import Cluster

#: In batches, after which a batch counts half as much: long enough for a plan to be about more than the last
#: garbage collection, short enough to follow a machine that has a new neighbour within seconds.
HALF_LIFE = 8.0
#: A worker counts as if it had also worked this long at the mean speed. What a batch costs once, whatever its
#: tuples (a first call, a pause, a neighbour), is up to tens of milliseconds; a worker that is slow shows it
#: in seconds of work, and one with less to do can wait for.
PRIOR_SECONDS = 0.1
#: However slow or fast, within this many times the mean: no worker is left out, for then nothing would be
#: measured of it.
RANGE = 8.0


class WorkerTimes:
    """Of one task. Worker i is partition i of the second stage, wherever Spark runs it: where executors are
    alike all times come to the same, and where one is slow, Spark mostly gives it the same partitions.
    """

    def __init__(self, workers: int) -> None:
        self._tuples, self._seconds = np.zeros(workers), np.zeros(workers)

    def add(self, tuples: Ints, seconds: Floats) -> None:
        """A batch; shape (workers,)."""
        kept = 0.5 ** (1 / HALF_LIFE)
        self._tuples = self._tuples * kept + tuples
        self._seconds = self._seconds * kept + seconds

    @property
    def cluster(self) -> Cluster:
        """The workers with their times, in seconds a tuple; all alike while nothing was measured."""
        from sluice.grouping.base import Cluster

        total = float(self._tuples.sum())
        mean = float(self._seconds.sum()) / total if total else 0.0
        if mean <= 0:
            return Cluster.alike(len(self._tuples))
        times = (self._seconds + PRIOR_SECONDS) / (self._tuples + PRIOR_SECONDS / mean)
        return Cluster(tuple(np.clip(times, mean / RANGE, mean * RANGE).tolist()))
