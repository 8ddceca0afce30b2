"""What dkg, dag and tag share: hot keys, by a worker's fair share, and tables of them.

One worker's fair share is 1/W of all tuples. By default a key is hot from a fifth of it on. This is the
1/(5W) of paper 001, section 3.3.1; below it, two choices keep keys in balance (Nasir et al. 2015). So the
threshold and the summary's error follow W.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sluice.grouping.base import ParameterOutOfBounds, Strategy, WorkerCluster
from sluice.grouping.compiled import kernel
from sluice.grouping.frequency.decay import FOREVER
from sluice.grouping.frequency.space_saving import SpaceSaving, space_saving
from sluice.grouping.frequency.table import CounterTable, find, put, table
from sluice.grouping.parameters import within
from sluice.runtime.arrays import Hashes

#: Space-Saving overestimates a key by up to 1/counters of a fair share. Theta must be at least this many
#: times as much, or rare keys would be taken for hot.
_FINER = 2


@dataclass(frozen=True)
class HotKeys(Strategy):
    """A strategy that treats hot keys separately.

    theta: the least share of a hot key as a multiple of 1/W; 0.002 to 1.
    counters: of Space-Saving, for each worker; 2 to 1,000. A theta below 2/counters is refused, because the
        summary does not resolve it.
    """

    theta: float = 0.2
    counters: int = 10

    def __post_init__(self) -> None:
        within(self, "theta", 0.002, 1)
        within(self, "counters", 2, 1_000)
        if self.theta * self.counters < _FINER:
            least = f"at least {_FINER}/counters = {_FINER / self.counters:g}, what the summary resolves"
            raise ParameterOutOfBounds(self.name, "theta", self.theta, least)

    def summary(self, cluster: WorkerCluster, half_life: int = FOREVER) -> SpaceSaving:
        """An empty summary that resolves this strategy's hot keys."""
        return space_saving(self.counters * cluster.workers, half_life)


def numbered(keys: Hashes) -> CounterTable:
    """A table of distinct keys; their entries are their places in `keys`."""
    made = table(max(1, len(keys)))
    _number(keys, made)
    return made


@kernel
def _number(keys: Hashes, made: CounterTable) -> None:
    places = np.empty(len(keys), np.int32)
    for entry in range(len(keys)):
        put(made, find(made, keys[entry]), keys[entry], entry, places)
