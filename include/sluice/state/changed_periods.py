"""The periods that a batch changed, and those that the driver keeps in mind for the next batch."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterable, Mapping

import pyarrow as pa

from sluice.state.deltas import block_bytes, takes_deltas
from sluice.storage.tables.epochs import PeriodKey, StatePeriod

#: Most periods sent to every task, many times those that lines arrive for; a task fetches the others itself.
KNOWN = 1_000


def changed(stated: pa.Table, seq: int) -> tuple[list[StatePeriod], set[PeriodKey]]:
    """The periods of STATED as they are after commit `seq`, and those that must be laid out before it.

    A period may be in several parts, one of each task that merged some of its blocks.
    """
    found: dict[PeriodKey, StatePeriod] = {}
    blocks: dict[PeriodKey, tuple[int, int]] = {}
    late: set[PeriodKey] = set()
    for row in stated.to_pylist():
        key = row["task_id"], row["version"], row["period_start"]
        number, size = blocks.get(key, (0, 0))
        number, size = blocks[key] = number + row["blocks"], size + row["bytes"]
        estimate = size * row["layout"] // number
        found[key] = StatePeriod(*key, row["layout"], row["since"], seq, estimate)
        if row["late"]:
            late.add(key)
    return [found[key] for key in sorted(found)], late


def outgrown(stated: pa.Table) -> set[PeriodKey]:
    """The periods of STATED that need a wider layout."""
    return {
        (row["task_id"], row["version"], row["period_start"]) for row in stated.to_pylist() if row["widen"]
    }


class KnownPeriods:
    """The periods that the newest batches changed. The newest are kept."""

    def __init__(self) -> None:
        self._periods: OrderedDict[PeriodKey, StatePeriod] = OrderedDict()
        self._whole: set[PeriodKey] = set()  # they go to a single task, which can lay them out again

    def all(self) -> Mapping[PeriodKey, StatePeriod]:
        return dict(self._periods)

    def spread(self) -> dict[PeriodKey, int]:
        """The layouts of the periods whose buckets several tasks merge."""
        return {
            key: period.layout
            for key, period in self._periods.items()
            if period.layout > 1 and key not in self._whole
        }

    def homes(self, tasks: int) -> dict[PeriodKey, int]:
        """Which of the `tasks` tasks merges each whole period that the newest commit changed.

        Periods are dealt out by size, the largest first, each to the task that has the fewest bytes so far.
        """
        newest = next(reversed(self._periods.values())).seq if self._periods else 0
        spread = self.spread()
        whole = [each for key, each in self._periods.items() if each.seq == newest and key not in spread]
        loads = [(0, task) for task in range(tasks)]
        found = {}
        for period in sorted(whole, key=lambda each: (-each.bytes, each.key)):
            load, found[period.key] = loads[0]
            heapq.heapreplace(loads, (load + period.bytes, found[period.key]))
        return found

    def large(self) -> dict[PeriodKey, int]:
        """The periods whose blocks take deltas, and about how many bytes a block of each has."""
        return {
            key: block_bytes(period)
            for key, period in self._periods.items()
            if takes_deltas(period) and key not in self._whole
        }

    def widen(self, keys: Iterable[PeriodKey]) -> None:
        """Let a single task have each of these periods from now on, until it has a wider layout."""
        self._whole |= set(keys)

    def forget(self, keys: Iterable[PeriodKey]) -> None:
        """Forget periods that have no state any more: they begin anew with the next batch."""
        for key in keys:
            self._periods.pop(key, None)
            self._whole.discard(key)

    def committed(self, periods: Iterable[StatePeriod], outgrown: Iterable[PeriodKey]) -> None:
        """Note the periods that a commit changed, and those that need a wider layout."""
        for period in periods:
            before = self._periods.pop(period.key, None)
            if before is not None and before.layout != period.layout:
                self._whole.discard(period.key)
            self._periods[period.key] = period
        self.widen(outgrown)
        while len(self._periods) > KNOWN:
            key, _ = self._periods.popitem(last=False)
            self._whole.discard(key)
