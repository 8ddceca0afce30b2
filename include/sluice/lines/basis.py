"""What a result is made of: by which version, over which offsets, as of which commit or cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from sluice.batch.barred import PLACES, barred
from sluice.batch.task_versions import before, ranges_of
from sluice.engine.plan import Range, inside
from sluice.lines.query import LinesQuery
from sluice.results.filters import SeriesFilter
from sluice.results.layers import Layers
from sluice.results.patience import PATIENCE_SECONDS
from sluice.results.pieces import Pieces
from sluice.results.rows import STATES, PeriodState
from sluice.runtime.arrays import Bools, Ints
from sluice.runtime.days import DAY_MS, days_of
from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables.backfills import Backfills
from sluice.storage.tables.commits import CommitLog
from sluice.storage.tables.days import Days
from sluice.tasks.spec import ActiveTask

EPOCH = date(1970, 1, 1)


class ResultsDropped(LookupError):
    """Retention dropped the results of the period: nobody knows any more which of its lines were counted."""

    def __init__(self, task: ActiveTask, days: Sequence[date], dropped_at: datetime, kept: int) -> None:
        super().__init__(
            f"the results of {task.spec.name} for {', '.join(map(str, days))} are gone since "
            f"{dropped_at:%Y-%m-%d}: their lines arrived more than {kept} days ago (retention.days). What "
            'the archive has of the day is in Hive\'s `raw`: sluice sql "SELECT ..."'
        )


@dataclass(frozen=True)
class Result:
    """What the readers of results are told: how many lines, and where the number comes from."""

    counted: int | None  # None: the version keeps no number of the metric's lines
    state: PeriodState | None = None  # None: no series passes
    commit: int = 0  # of an open period
    run_id: str = ""  # of the others


@dataclass(frozen=True)
class Basis:
    """A result, and which places in Kafka it was counted from."""

    task: ActiveTask
    start: int  # of the period, ms
    end: int
    result: Result
    below: Mapping[date, Range]  # the offsets that were known for each day of event time (UTC)
    ranges: Sequence[Range]  # those that the version counted
    filled: Mapping[date, Range]  # those that backfills of it counted
    barred: pa.Table = field(default_factory=PLACES.empty_table)  # places of lines that no task counts

    @property
    def topic(self) -> str:
        return self.task.spec.topic

    @property
    def days(self) -> list[date]:
        """The days of event time (UTC) that the period touches."""
        return days_of(self.start, self.end)

    def known(self, event_ms: Ints, partition: Ints, offset: Ints) -> Bools:
        """Which lines had come when the result was computed."""
        return _by_day(self.below, event_ms, partition, offset)

    def counts(self, event_ms: Ints, partition: Ints, offset: Ints) -> Bools:
        """Which lines the version counted, by their places alone."""
        filled = _by_day(self.filled, event_ms, partition, offset)
        found: Bools = inside(self.ranges, partition, offset) | filled
        return found

    def ends(self) -> dict[int, int]:
        """The offset in each partition from which on no line can belong to the result."""
        ends: dict[int, int] = {}
        for range_ in self.below.values():
            for partition, offset in range_.end or ():
                ends[partition] = max(ends.get(partition, 0), offset)
        return ends


def _by_day(ranges: Mapping[date, Range], event_ms: Ints, partition: Ints, offset: Ints) -> Bools:
    """Which lines lie in the range of their day."""
    found = np.zeros(len(event_ms), bool)
    for day, range_ in ranges.items():
        own = event_ms // DAY_MS == (day - EPOCH).days
        found |= own & inside((range_,), partition, offset)
    return found


def basis(
    settings: Settings, layers: Layers, query: LinesQuery, task: ActiveTask, commit: int | None = None
) -> Basis:
    """The basis of a result as it is now; of an open period as of that commit, if one is given.

    Raises ResultsDropped, and what the stores raise.
    """
    database, topic = engine(settings), task.spec.topic
    start, end = query.period, task.spec.span.end(query.period)
    days = Days(database, topic)
    _refuse_dropped(settings, days, task, days_of(start, end))
    result = read_result(layers, query, task)
    is_open = result.state == PeriodState.OPEN
    log = CommitLog(database, topic, PATIENCE_SECONDS)
    head = log.head(commit if commit is not None and is_open else result.commit if is_open else None)
    below: dict[date, Range] = {}
    for day in days_of(start, end):
        if is_open:
            below[day] = Range.of({}, head.end if head else {})
        elif (computed := days.get(day)) is not None:
            below[day] = Range.of({}, computed.published_cut or computed.cut)
    version = (task.task_id, task.version)
    ranges = ranges_of(database, topic, [version]).get(version, [])
    return Basis(
        task=task,
        start=start,
        end=end,
        result=result,
        below=below,
        ranges=ranges,
        filled=_filled(database, task, ranges, days_of(start, end), only_projected=not is_open),
        barred=barred(database, topic),
    )


def read_result(layers: Layers, query: LinesQuery, task: ActiveTask) -> Result:
    """How many lines the metric's results say that there are, and what they are as of."""
    counted: int | None = 0
    found = Result(0)
    begin, end = query.period, query.period + 1
    wanted = SeriesFilter(task, begin, end, query.where)
    for piece in Pieces(layers, task, layers.sides(task, begin, end), begin, end):
        rows = piece.rows.append_column("state", pa.array(piece.states.astype(np.int64)))
        rows = wanted.keep(rows)
        if rows.num_rows:
            state = STATES[rows.column("state")[0].as_py()]
            counted = _plus(counted, _lines(rows, query.measured))
            found = Result(counted, state, piece.commit, piece.run_id)
    return found


def _lines(rows: pa.Table, measured: bool | None) -> int | None:
    """The lines that SERIES say; None if they have no such accumulator."""
    sums = {
        name: pc.sum(rows.column(name)).as_py() or 0 for name in ("lines", "measured") if _has(rows, name)
    }
    if measured:
        return sums.get("measured")
    if measured is None or "lines" not in sums:
        return sums.get("lines")
    return sums["lines"] - sums["measured"]


def _has(rows: pa.Table, name: str) -> bool:
    return name in rows.column_names


def _plus(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _filled(
    database: sa.Engine,
    task: ActiveTask,
    ranges: Sequence[Range],
    days: Sequence[date],
    *,
    only_projected: bool,
) -> dict[date, Range]:
    """The offsets that backfills counted, by day; final results have only what was projected."""
    if not ranges:
        return {}
    filled = (
        each for day in days for each in Backfills(database, PATIENCE_SECONDS).filled(task.spec.topic, day)
    )
    return {
        each.day: before(ranges)
        for each in filled
        if (each.task_id, each.version) == (task.task_id, task.version)
        and (each.projected or not only_projected)
    }


def _refuse_dropped(settings: Settings, book: Days, task: ActiveTask, days: Sequence[date]) -> None:
    dropped = [book.dropped_at(day) for day in days]
    when = [at for at in dropped if at is not None]
    if len(when) == len(days):
        raise ResultsDropped(task, days, max(when), settings.retention.days)
