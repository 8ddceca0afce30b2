"""How long tuples wait: a worker is a first come, first served queue of service time t_i.

The service time is fixed. The waiting time follows Lindley's recursion (1952, "The theory of queues with a
single server") exactly: a tuple starts once it has come and the tuple before it at its worker is done.
Arrivals are Poisson or evenly spaced. With one worker and Poisson arrivals this is the M/D/1 queue, whose
mean wait is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from sluice.grouping.base import Targets, WorkerCluster
from sluice.grouping.compiled import kernel
from sluice.grouping.imbalance import loads
from sluice.runtime.arrays import Floats

Arrivals = Literal["poisson", "even"]
ARRIVALS: tuple[Arrivals, ...] = get_args(Arrivals)
_PERCENTILES = (50.0, 90.0, 99.0, 99.9)
_MOST_WARM_UP = 0.9


@dataclass(frozen=True)
class Latency:
    """From a tuple's arrival to the end of its service, in the unit of t_i.

    busiest: the utilisation of the busiest worker. From 1 on its queue is unbounded, and the figures grow
    with the length of the run.
    """

    busiest: float
    mean: float
    p50: float
    p90: float
    p99: float
    p999: float

    @property
    def bounded(self) -> bool:
        return self.busiest < 1


def latency(
    targets: Targets,
    cluster: WorkerCluster,
    utilisation: float = 0.8,
    *,
    arrivals: Arrivals = "poisson",
    warm_up: float = 0.1,
    seed: int = 0,
) -> Latency:
    """How long routed tuples take if the queues are empty at first.

    targets: in the order of arrival, not empty. utilisation: the rate of arrivals over the rate that all
    workers could serve, sum(1/t_i); 0 < utilisation < 1. warm_up: the part of the tuples, counted from the
    first, that is not measured, 0 to 0.9. Raises ValueError beyond these bounds.
    """
    if not (0 < utilisation < 1 and 0 <= warm_up <= _MOST_WARM_UP and arrivals in ARRIVALS and len(targets)):
        raise ValueError(
            f"latency of {len(targets)} tuples with utilisation {utilisation:g}, warm-up {warm_up:g} and "
            f"{arrivals!r} arrivals is not defined"
        )
    times = np.asarray(cluster.times)
    gap = 1 / (utilisation * (1 / times).sum())
    at = _arrivals(len(targets), gap, arrivals, seed)
    took = latencies(targets, at, times)[int(warm_up * len(targets)) :]
    busiest = loads(targets, cluster).max() / (gap * len(targets))
    return Latency(float(busiest), float(took.mean()), *np.percentile(took, _PERCENTILES).tolist())


def _arrivals(n: int, gap: float, kind: Arrivals, seed: int) -> Floats:
    if kind == "even":
        return np.asarray(np.arange(n) * gap)
    return np.asarray(np.cumsum(np.random.default_rng(seed).exponential(gap, n)))


@kernel
def latencies(targets: Targets, arrivals: Floats, times: Floats) -> Floats:
    """Each tuple's latency. arrivals: ascending, as long as targets. times: shape (workers,)."""
    free = np.zeros(len(times))
    found = np.empty(len(targets))
    for i in range(len(targets)):
        worker = targets[i]
        free[worker] = max(free[worker], arrivals[i]) + times[worker]
        found[i] = free[worker] - arrivals[i]
    return found
