"""How good a routing was.

Load is tuples times t_i. Three definitions of imbalance are in use:

- `relative`: max / mean - 1, for W workers; paper 001, formula (2), and this project's bars;
- `share`: (max - mean) / all tuples, as Nasir et al. 2015 print it;
- `absolute`: max - mean in tuples, paper 000, section 3.3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sluice.grouping.base import Targets, WorkerCluster
from sluice.runtime.arrays import Floats, Hashes


@dataclass(frozen=True)
class Imbalance:
    relative: float
    share: float
    absolute: float


def imbalance(load: Floats) -> Imbalance:
    """The imbalance of a load, shape (workers,); 0 without any load."""
    mean, most, total = float(load.mean()), float(load.max()), float(load.sum())
    if total == 0:
        return Imbalance(0.0, 0.0, 0.0)
    return Imbalance(most / mean - 1, (most - mean) / total, most - mean)


def loads(targets: Targets, cluster: WorkerCluster) -> Floats:
    """Each worker's load: its tuples times its time; shape (workers,)."""
    counts = np.bincount(targets, minlength=cluster.workers)
    return np.asarray(counts * np.asarray(cluster.times))


def makespan(targets: Targets, cluster: WorkerCluster) -> float:
    """The time that the busiest worker takes, divided by the optimum, all tuples / sum(1/t_i)."""
    if not len(targets):
        return 1.0
    optimum = len(targets) / (1 / np.asarray(cluster.times)).sum()
    return float(loads(targets, cluster).max() / optimum)


def replicas(keys: Hashes, targets: Targets) -> float:
    """Pairs of worker and key that hold state, divided by distinct keys; 1 for key grouping."""
    if not len(keys):
        return 1.0
    distinct, codes = np.unique(keys, return_inverse=True)
    pairs = np.unique(codes.astype(np.int64) << 17 | targets)
    return len(pairs) / len(distinct)
