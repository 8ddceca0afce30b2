"""The final blocks of a day that agrees: the accumulators of every period that was compared.

Periods inside the day come from the batch layer's files of the day. A period of several days is merged from
the accumulators of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

import pyarrow as pa

from sluice.results.day_accumulators import day_partials, files
from sluice.results.offline_results import partials_of_days
from sluice.results.periods import Interval, Periods
from sluice.runtime.settings import Settings
from sluice.state import finals as blocks
from sluice.state.series import of_partials
from sluice.storage.hbase import HBase
from sluice.storage.hdfs import HdfsStore
from sluice.storage.hive import Hive
from sluice.storage.tables.commits import Version
from sluice.storage.tables.days import Day
from sluice.storage.tables.finals import FinalBlock, FinalRange, Finals
from sluice.tasks.spec import ActiveTask


@dataclass(frozen=True)
class Compared:
    """The periods of a task version that were compared."""

    task: ActiveTask
    periods: Periods

    @property
    def version(self) -> Version:
        return self.task.task_id, self.task.version


class Publication:
    """Writes the final blocks of one day."""

    def __init__(self, settings: Settings, book: Finals, day: Day, hive: Hive, hbase: HBase) -> None:
        self._settings = settings
        self._book = book
        self._day = day
        self._hive = hive
        self._hbase = hbase

    def write(self, compared: Sequence[Compared]) -> list[FinalRange]:
        """Write the blocks of the compared periods; returns the ranges that `Finals.publish` makes valid."""
        tasks = {each.version: each.task for each in compared}
        wanted = {each.version: each.periods.inside for each in compared if each.periods.inside}
        found: dict[Version, list[FinalBlock]] = {version: [] for version in wanted}
        for version, rows in self._inside(wanted):
            found[version] += self._blocks(tasks[version], wanted[version].start, rows)
        day = self._day.day
        ranges = [self._range(v, wanted[v], (day, day), own) for v, own in found.items()]
        for each in compared:
            for period in each.periods.crossing:
                ranges.append(self._crossing(each.task, period))
        return ranges

    def _inside(self, wanted: dict[Version, range]) -> Iterator[tuple[Version, pa.Table]]:
        if not wanted:
            return
        paths = files(self._hive, self._day.topic, self._day.day)
        yield from day_partials(HdfsStore.of(self._settings).read, paths, wanted)

    def _crossing(self, task: ActiveTask, period: Interval) -> FinalRange:
        days = period.days
        rows = partials_of_days(self._hive, task.spec.topic, task, {period.start: days})
        starts = range(period.start, period.start + 1)
        written = self._blocks(task, period.start, rows)
        return self._range((task.task_id, task.version), starts, (days[0], days[-1]), written)

    def _blocks(self, task: ActiveTask, first: int, rows: pa.Table) -> tuple[FinalBlock, ...]:
        prefix = f"{task.label}/{first}"
        return blocks.write(self._hbase, self._book.reserve, prefix, [of_partials(rows, task)])

    def _range(
        self, version: Version, starts: range, days: tuple[date, date], written: Sequence[FinalBlock]
    ) -> FinalRange:
        in_order = tuple(sorted(written, key=lambda block: (block.first, block.last)))
        return FinalRange(*version, starts.start, starts.stop, *days, self._day.run_id, in_order)
