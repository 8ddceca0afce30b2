"""Which task of a batch's second stage merges which partial aggregates into the state.

The tasks share no block: a period goes whole to one of them, except that the buckets of a wide period which
the driver named are spread over all tasks. Which one is the driver's choice, by the sizes of the periods that
it knows; other periods are dealt out by their names.

The nightly run deals out otherwise (`batch.shuffled`): it writes no blocks, so there any task may merge any
series of a period.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from sluice.engine.dealt_out import dealt_out
from sluice.state.blocks import bucket_hash, periods
from sluice.storage.tables.epochs import PeriodKey

#: Neighbouring periods begin a multiple of seconds apart: multiplied by this, they differ in all their bits.
_MIXER = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class Dealing:
    """How partial aggregates are dealt out to `tasks` tasks."""

    tasks: int
    spread: Mapping[PeriodKey, int] = field(default_factory=dict)  # the layouts of periods that are spread
    homes: Mapping[PeriodKey, int] = field(default_factory=dict)  # the tasks that the driver chose

    def __call__(self, partials: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """Each task's number and its rows of PARTIALS."""
        names, own = periods(partials)
        first = np.array([self._first(name) for name in names], np.int64)
        targets = first[own]
        layouts = np.array([self.spread.get(name, 1) for name in names], np.int64)[own]
        if len(wide := np.flatnonzero(layouts > 1)):
            hashes = bucket_hash(partials.column("key").take(pa.array(wide)))
            targets[wide] += (hashes % layouts[wide].astype(np.uint64)).astype(np.int64)
            targets[wide] %= self.tasks
        yield from dealt_out(partials, targets)

    def _first(self, period: PeriodKey) -> int:
        """The task that has the period, or its first bucket. Tasks of one period take turns."""
        if (home := self.homes.get(period)) is not None:
            return home
        task_id, version, start = period
        mixed = (start // 1000 * _MIXER & (1 << 64) - 1) >> 32
        return (task_id + version + mixed) % self.tasks
