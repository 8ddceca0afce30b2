"""What dkg, dag and tag share: keys that are hot beside a worker's fair share, and tables of them.

One worker's fair share is 1/W of all tuples. By default a key above a fifth of it is hot, the 1/(5W) of
seed 001, section 3.3.1: below it, two choices keep keys in balance (Nasir et al. 2015, section IV). So the
threshold and the summary's error move with W, and a source's summary has W / `error` counters.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from sluice.grouping.base import Cluster, Strategy
from sluice.grouping.compiled import kernel
from sluice.grouping.frequency.decay import FOREVER
from sluice.grouping.frequency.space_saving import SpaceSaving, space_saving
from sluice.grouping.frequency.table import Table, find, put, table
from sluice.grouping.hashing import Hashes
from sluice.grouping.parameters import within

LEAST_ERROR = 0.001


@dataclass(frozen=True)
class HotKeys(Strategy):
    """A strategy that treats hot keys apart.

    hot: a key is hot from this part of a worker's fair share on; 0.002 to 1.
    error: what Space-Saving may add to a key's share, in the same unit; 0.001 to `hot` / 2, for a summary
        that is about as coarse as the threshold calls any key hot.
    """

    hot: float = 0.2
    error: float = 0.1

    def __post_init__(self) -> None:
        within(self, "hot", 2 * LEAST_ERROR, 1)
        within(self, "error", LEAST_ERROR, self.hot / 2)

    def summary(self, cluster: Cluster, half_life: int = FOREVER) -> SpaceSaving:
        """An empty summary that resolves this strategy's hot keys."""
        return space_saving(ceil(cluster.workers / self.error), half_life)


def numbered(keys: Hashes) -> Table:
    """A table of distinct keys; their entries are their places in `keys`."""
    made = table(max(1, len(keys)))
    _number(keys, made)
    return made


@kernel
def _number(keys: Hashes, made: Table) -> None:
    places = np.empty(len(keys), np.int32)
    for entry in range(len(keys)):
        put(made, find(made, keys[entry]), keys[entry], entry, places)
