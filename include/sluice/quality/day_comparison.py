"""What is compared of one day: every task version's results, and the day's lines at each hop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import date

import pandas as pd
import pyarrow as pa
import sqlalchemy as sa

from sluice.archive import index
from sluice.batch.task_versions import first_arrival, task_versions
from sluice.quality.day_hops import Hop, day_hops
from sluice.quality.final_blocks import Compared
from sluice.quality.outcomes import outcomes
from sluice.results.compare import COLUMNS, NAMED, Comparison, ShownDifference, compare
from sluice.results.offline_results import DayResults, of_days
from sluice.results.online_results import online_results
from sluice.results.periods import Interval, Periods
from sluice.runtime.days import days_of
from sluice.runtime.settings import Settings
from sluice.storage.hbase import HBase
from sluice.storage.hive import Hive
from sluice.storage.partitions import check_there
from sluice.storage.tables import open_periods, uncounted
from sluice.storage.tables.commits import CommitLog, Version
from sluice.storage.tables.days import Day, Days
from sluice.storage.tables.open_periods import OpenPeriod
from sluice.storage.tables.recounts import Recounts
from sluice.tasks.spec import ActiveTask

Stores = tuple[Hive, HBase, DayResults]


@dataclass(frozen=True)
class DayComparison:
    """The comparison of a day, and of other days' open periods that could be compared by now."""

    day: Day
    frame: pd.DataFrame  # compare.COLUMNS
    differing: int
    differences: tuple[ShownDifference, ...]  # the first of them
    hops: tuple[Hop, ...]
    open_periods: tuple[OpenPeriod, ...]  # those of the topic that still wait for other days
    closed_periods: tuple[OpenPeriod, ...]  # those that were compared
    compared: tuple[Compared, ...]  # the periods of each version
    #: By task, the lines that it skipped; None: not counted then.
    skipped: Mapping[str, Mapping[str, int]] | None = None

    @property
    def agrees(self) -> bool:
        return not self.differing and all(hop.agrees for hop in self.hops)

    @property
    def by_task(self) -> dict[str, tuple[int, int]]:
        """By task ("name (label)"): how many results were compared, and how many of them differ."""
        differs = self.frame.groupby("task", sort=True)["differs"]
        return {str(name): (len(each), int(each.sum())) for name, each in differs}

    def message(self) -> str:
        name = f"{self.day.topic} {self.day.day}"
        waiting = f"; {len(self.open_periods)} periods wait for other days" if self.open_periods else ""
        if self.agrees:
            return f"{name} agrees: {len(self.frame)} results of {self.day.lines} lines{waiting}"
        hops = [str(hop) for hop in self.hops if not hop.agrees]
        if not hops:
            hops = ["all counts of lines agree, so the results were changed after they were counted"]
        lines = [f"{name} differs in {self.differing} of {len(self.frame)} results{waiting}"]
        lines += [f"  hop {hop}" for hop in hops]
        lines += [f"  {difference}" for difference in self.differences]
        if self.differing > len(self.differences):
            lines.append(f"  and {self.differing - len(self.differences)} more")
        return "\n".join(lines)


def compare_day(settings: Settings, book: Days, day: Day) -> DayComparison:
    """Compare every version that may have counted lines of the day; none of a day that retention dropped.

    A version that the batch layer or a rebuild could not count on a day is left out of it: an alert says so.
    On other days its periods that touch that day wait for it. Periods that were open until now are also
    compared, if they can be. Raises DaysAbsent if what the batch layer computed is not there to be compared.
    """
    waiting = open_periods.of_topic(book.engine, day.topic)
    cut = {int(partition): position for partition, position in day.cut.items()}
    since = first_arrival(index.files_for(settings, day.topic, day.day, cut))
    versions = task_versions(book.engine, day.topic, day.day, since=since, also=waiting)
    failed = _failed_days(book.engine, day.topic, versions.tasks)
    found: list[Comparison] = []
    standing: list[Compared] = []
    still: list[OpenPeriod] = []
    done: list[OpenPeriod] = []
    with Hive(settings) as hive, HBase.of(settings) as hbase:
        open_days = {day for each in waiting.values() for one in each for day in days_of(one.start, one.end)}
        check_there(hive, book, {day.day} | open_days)
        stores = (hive, hbase, DayResults(hive, day.topic, day.day))
        for task in () if versions.dropped else versions.tasks:
            version = task.task_id, task.version
            due = _due(task, day.day, waiting.get(version, ()), failed.get(version, set()))
            comparison, compared = _compare_standing(stores, book, day.day, task, due)
            found.append(comparison)
            standing.append(Compared(task, Periods(due.inside, compared)))
            for period in due.crossing:
                named = OpenPeriod(*version, period.start, period.end)
                (done if period in compared else still).append(named)
        hops = day_hops(book, hive, day)
    lacking = {version for version, days in failed.items() if day.day in days}
    lines = outcomes(book.engine, day, () if versions.dropped else versions.tasks, lacking)
    hops += lines.hops() if lines else []
    frames = [comparison.frame for comparison in found if comparison.compared]
    return DayComparison(
        day=day,
        frame=pd.concat(frames, ignore_index=True) if frames else _nothing(),
        differing=sum(comparison.differing for comparison in found),
        differences=tuple(d for comparison in found for d in comparison.differences)[:NAMED],
        hops=tuple(hops),
        open_periods=tuple(still),
        closed_periods=tuple(done),
        compared=tuple(standing),
        skipped=lines.skipped() if lines else None,
    )


def _failed_days(database: sa.Engine, topic: str, tasks: Iterable[ActiveTask]) -> dict[Version, set[date]]:
    """The days on which versions could not be counted, at night or by a rebuild."""
    found = {version: set(days) for version, days in uncounted.days_by_version(database, topic).items()}
    ends = {(task.task_id, task.version): task.spec.span.end for task in tasks}
    for key in Recounts(database, topic).failed():
        if (end := ends.get(key[:2])) is not None:
            found.setdefault(key[:2], set()).update(days_of(key[2], end(key[2])))
    return found


@dataclass(frozen=True)
class _Due:
    """What is to be compared of a task version; it has no offline results on days of `lacking`."""

    inside: range
    crossing: tuple[Interval, ...]
    lacking: Set[date]


def _due(task: ActiveTask, day: date, waiting: Iterable[OpenPeriod], lacking: Set[date]) -> _Due:
    touching = Periods.of(day, task.spec.span)
    if day in lacking:
        touching = Periods(range(0), ())
    open_ = (Interval(period.start, period.end) for period in waiting)
    return _Due(touching.inside, tuple(dict.fromkeys((*touching.crossing, *open_))), lacking)


def _compare_standing(
    stores: Stores, book: Days, day: date, task: ActiveTask, due: _Due
) -> tuple[Comparison, tuple[Interval, ...]]:
    """Compare the due periods whose days all stand; also returns the crossing ones among them."""
    whole = tuple(period for period in due.crossing if due.lacking.isdisjoint(period.days))
    version = task.task_id, task.version
    comparable = _comparable(book, version, whole, day)
    comparison = _compare(*stores, task, Periods(due.inside, comparable))
    while comparison.differing and (still := _comparable(book, version, comparable, day)) != comparable:
        # A line of another day came while this was read: that period waits for the other day's turn.
        comparable = still
        comparison = _compare(*stores, task, Periods(due.inside, comparable))
    return comparison, comparable


def _compare(hive: Hive, hbase: HBase, own: DayResults, task: ActiveTask, periods: Periods) -> Comparison:
    inside, crossing = periods.inside, {period.start: period.days for period in periods.crossing}
    if not inside and not crossing:
        return Comparison(_nothing(), 0, ())
    online = online_results(hbase, task, inside, tuple(crossing))
    shared = of_days(hive, task.spec.topic, task, crossing)
    offline = pa.concat_tables([own.of(task, inside), shared])
    return compare(f"{task.spec.name} ({task.label})", online, offline)


def _comparable(book: Days, version: Version, periods: Sequence[Interval], own: date) -> tuple[Interval, ...]:
    """Periods whose other days that have lines are computed, current and counted online.

    A period that is being counted again waits: online it has no results, or old ones.
    """
    aside = {each.period_start for each in Recounts(book.engine, book.topic).all() if each.key[:2] == version}
    periods = [period for period in periods if period.start not in aside]
    days = {day for period in periods for day in period.days} - {own}
    open_ = {day for day in days if not _stands(book, day)}
    return tuple(period for period in periods if open_.isdisjoint(period.days))


def _stands(book: Days, day: date) -> bool:
    if book.dropped(day):
        return False
    computed = book.get(day)
    if computed is None:
        return not book.online(day).lines
    return CommitLog(book.engine, book.topic).passed(computed.cut) and not book.superseded(computed)


def _nothing() -> pd.DataFrame:
    return pd.DataFrame({name: [] for name in COLUMNS}).astype({"differs": bool})
