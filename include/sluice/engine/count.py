"""Lines to partial aggregates: extract, filter, group, accumulate, in one vectorised pass.

One pass serves all tasks, and the same call serves both layers. What it computes depends only on the lines
and the plan, so any split of the lines into batches gives the same aggregates once they are merged
(`merge.py`). For *routed* tasks it stops before accumulating: their lines come out as tuples, which workers
aggregate (`speed.routed`).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluice.engine.aggregation import Grouping, Shared, aggregate
from sluice.engine.cut import COMPILED_LINES
from sluice.engine.extract import BatchLines, numbers, passing
from sluice.engine.groups import Coded, Groups, code, group
from sluice.engine.outcomes import ABSENT, DIMENSION_BYTES, FILTERED, LONG, TaskOutcome, outcome
from sluice.engine.parse import dead_reason, event_time, refused
from sluice.engine.plan import EnginePlan, Range, Selection, TaskPlan, inside
from sluice.engine.rowkey import escape_column
from sluice.engine.schema import partials_schema
from sluice.engine.selector import Selector
from sluice.engine.set_aside import CAUGHT, Failures, Version, reason, series_a_period
from sluice.engine.skips import OutcomeCollector, Places
from sluice.engine.spent import AT_SOURCE, Spent
from sluice.engine.tuples import Tuples
from sluice.metrics import Batch, Numbers, Texts
from sluice.runtime.arrays import Bools, Bytes, Ints
from sluice.tasks.extract import Extract
from sluice.tasks.period import Period
from sluice.transmission.line_schema import LINE_IN_RECORD

Done = TypeVar("Done")


@dataclass(frozen=True)
class CountedLines:
    """What became of a batch of unique lines."""

    partials: pa.Table  # PARTIALS
    event_ms: Ints  # per line; 0 where it has no time
    reason: pa.Array  # string per line: why it is a dead letter, null where it is not
    failed: Failures  # versions that could not be counted here, and are not in `partials`
    tallies: pa.Table  # TALLIES of the topic and of the versions in `partials` and `tuples`
    skipped: pa.Table  # SKIPPED: samples of the lines that these skipped
    tuples: Sequence[Tuples] = ()  # of the routed versions, instead of `partials`
    spent: Sequence[Spent] = ()  # what aggregating each version took


def count(
    lines: pa.RecordBatch | pa.Table,
    plan: EnginePlan,
    *,
    routed: Collection[Version] = frozenset(),
    source: int = 0,
) -> CountedLines:
    """Count unique lines (LINE_SCHEMA): each is either counted (event_ms says when) or has a reason.

    No task counts a dead line: it is forged or unreadable, too long, or has no time. Of the others, each
    task counts, filters or skips each one (`outcomes`). Lines that passed once, as those of Hive's `logs`
    did, come without the column FORGED, as text.
    routed: versions whose lines are to come out as tuples. source: the number of the source of these lines.
    """
    pass_, event_ms, dead, _ = _begin(lines, plan, routed, source)
    table, failed = pass_.run()
    return CountedLines(
        table,
        event_ms,
        dead,
        failed,
        pass_.outcomes.tallies,
        pass_.outcomes.skipped,
        pass_.tuples,
        pass_.spent,
    )


@dataclass(frozen=True)
class ChosenLines:
    """The lines of a batch that one task version counts, and as what."""

    rows: Ints  # their numbers in the batch
    period_start: pa.Array  # ms since the epoch
    key: pa.Array  # the series (`rowkey.series_key`)
    measured: Bools | None  # which have a measure; None: the task has none


def chosen(lines: pa.RecordBatch, plan: EnginePlan) -> ChosenLines:
    """Which of these lines (LINE_SCHEMA) the plan's only task counts; `count` adds up just these.

    Raises what `count` would set the task aside for.
    """
    (task,) = plan.tasks
    pass_, _, _, alive = _begin(lines, plan)
    found = pass_.choose(task)
    return replace(found, rows=np.flatnonzero(alive)[found.rows])


def _begin(
    lines: pa.RecordBatch | pa.Table,
    plan: EnginePlan,
    routed: Collection[Version] = frozenset(),
    source: int = 0,
) -> tuple[_Pass, Ints, pa.Array, Bools]:
    """The pass over the lines that are not dead by themselves.

    Also each line's event time, why it is dead (null if it is not), and whether it is alive.
    """
    line = lines.column("line")
    line = line.combine_chunks() if isinstance(line, pa.ChunkedArray) else line
    if isinstance(line, pa.ChunkedArray):  # combine_chunks of a table's column without chunks
        line = pa.array([], pa.binary())
    if pa.types.is_string(line.type):  # Spark's texts are whatever bytes were logged
        line = line.cast(pa.binary())
    event_ms, valid = event_time(line, plan.topic)
    dead = dead_reason(line, valid, plan.limits, refused(lines))
    alive = dead.is_null().to_numpy(zero_copy_only=False)
    everything = bool(alive.all())
    kept = line if everything else line.filter(pa.array(alive))
    where: Ints | slice = slice(None) if everything else np.flatnonzero(alive)
    place: Ints = (
        np.asarray(pc.fill_null(lines.column(LINE_IN_RECORD), 0))[where]
        if LINE_IN_RECORD in lines.schema.names
        else np.zeros(len(kept), np.int64)
    )
    partition, offset = (np.asarray(lines.column(name))[where] for name in ("partition", "offset"))
    places = Places(kept, partition, offset, place)
    good = BatchLines(kept, plan.fields, plan.topic)
    pass_ = _Pass(good, plan, event_ms[where], places, routed=routed, source=source)
    return pass_, event_ms, dead, alive


class _Pass:
    """One batch's work: makes values, selections, groups and accumulators once for all tasks."""

    def __init__(
        self,
        lines: BatchLines,
        plan: EnginePlan,
        event_ms: Ints,
        places: Places,
        *,
        routed: Collection[Version],
        source: int,
    ) -> None:
        self.tuples: list[Tuples] = []
        self.spent: list[Spent] = []
        self._lines, self._plan, self._event_ms = lines, plan, event_ms
        self._places = places
        self._routed, self._source = routed, source
        self.outcomes = OutcomeCollector(lines, plan, event_ms, places)
        self._ranges: dict[tuple[Range, ...], Bools | None] = {}
        self._flags: dict[tuple[Selection, bool], Bytes | None] = {}
        self._periods: dict[Period, tuple[Coded, Ints]] = {}
        self._numbers: dict[Extract, Numbers] = {}
        self._texts: dict[Extract, Texts] = {}
        self._failed: Failures = {}
        self._keys: dict[Extract, pa.Array] = {}
        self._selector = None
        if len(event_ms) >= COMPILED_LINES:
            selections = (s for task in plan.tasks for s in (*task.where, *task.dimensions))
            self._selector = Selector(len(event_ms), len({s.extract for s in selections}))

    def run(self) -> tuple[pa.Table, Failures]:
        """The partial aggregates (PARTIALS) and the failures."""
        if not len(self._event_ms):
            return partials_schema().empty_table(), {}
        self.outcomes.judge_topic()
        alike: defaultdict[object, list[TaskPlan]] = defaultdict(list)
        for task in self._plan.tasks:
            alike[task.grouped_by].append(task)
        tables = []
        for some in alike.values():  # what only these tasks share is freed after them
            shared = Shared()
            done = (self._guarded(partial(self._task, shared=shared), task) for task in some)
            tables += [table for table in done if table is not None]
        return pa.concat_tables([partials_schema().empty_table(), *tables]), self._failed

    def choose(self, task: TaskPlan) -> ChosenLines:
        """The lines that the task counts; rows are numbers of this pass's lines."""
        if not len(self._event_ms):
            none = np.empty(0, np.int64)
            return ChosenLines(none, pa.array(none), pa.array([], pa.string()), none.astype(bool))
        grouping = self._group(task)
        rows = np.arange(len(self._event_ms)) if grouping.rows is None else grouping.rows.copy()
        measured = None if task.measure is None else self._batch(grouping, task).measured.present[rows]
        own = pa.array(grouping.groups.numbers)
        return ChosenLines(rows, grouping.period_start.take(own), grouping.key.take(own), measured)

    def _guarded(self, work: Callable[[TaskPlan], Done], task: TaskPlan) -> Done | None:
        """One task's part of the work; None if it failed, which is noted."""
        try:
            return work(task)
        except CAUGHT as error:
            self._failed[task.task_id, task.version] = reason(error)
            return None

    def _task(self, task: TaskPlan, shared: Shared) -> pa.Table:
        if shared.grouping is None:
            shared.grouping = self._group(task)
        grouping = shared.grouping
        if task.key in self._routed:
            measure = None if task.measure is None else self._lines.values(task.measure)
            self.tuples.append(Tuples.of(task, grouping, measure))
            self.spent.append(Spent(*task.key, AT_SOURCE, self._source, len(self.tuples[-1]), 0.0, 0))
            self.outcomes.note(task, grouping.outcome)
            return partials_schema().empty_table()
        began = time.perf_counter()
        table = aggregate(task, grouping, shared, partial(self._batch, grouping, task))
        seconds, tuples = time.perf_counter() - began, len(grouping.groups.numbers)
        self.spent.append(Spent(*task.key, AT_SOURCE, self._source, tuples, seconds, len(table)))
        self.outcomes.note(task, grouping.outcome)
        return table

    def _batch(self, grouping: Grouping, task: TaskPlan) -> Batch:
        groups, measure = grouping.groups, task.measure
        if measure is None:
            return Batch(groups.numbers, groups.size, None, grouping.rows)
        values = self._lines.values(measure)
        if measure not in self._texts:
            self._texts[measure] = Texts(values.codes, values.distinct)
        found = None
        if task.measure_type != "text":
            if measure not in self._numbers:
                self._numbers[measure] = numbers(values)
            found = self._numbers[measure]
        return Batch(groups.numbers, groups.size, found, grouping.rows, self._texts[measure])

    def _group(self, task: TaskPlan) -> Grouping:
        mask = self._in_range(task.ranges)
        period, starts = self._period(task.period)
        rows, groups, found = self._select(task, mask, period)
        series_a_period(groups.codes[0], self._plan.limits.series)
        keys = [self._escaped(d.extract) for d in task.dimensions]
        return Grouping(rows, groups, pa.array(starts[groups.codes[0]]), _keys(keys, groups), found)

    def _select(
        self, task: TaskPlan, mask: Bools | None, period: Coded
    ) -> tuple[Ints | None, Groups, TaskOutcome]:
        """The lines that the task counts (None: all), their groups by period and dimensions, and the rest."""
        selections = [(s, False) for s in task.where] + [(s, True) for s in task.dimensions]
        tables = [(s.extract, table) for s, own in selections if (table := self._flagged(s, own)) is not None]
        days, _ = self.outcomes.days
        values = [(d.extract, self._lines.values(d.extract)) for d in task.dimensions]
        if self._selector is not None:
            found = self._selector.group(
                mask,
                [(self._selector.column(e, self._lines.values(e)), table) for e, table in tables],
                period,
                [(self._selector.column(e, v), len(v.distinct) + 1) for e, v in values],
                days,
            )
            if found is not None:
                return found
        flags = np.zeros(len(self._event_ms), np.uint8)
        for extract, table in tables:
            flags |= table[self._lines.values(extract).codes]
        inside = np.ones(len(flags), bool) if mask is None else mask
        kept = inside & (flags == 0)
        rows = None if kept.all() else np.flatnonzero(kept)
        coded = [period, *(Coded(v.codes.astype(np.int64), len(v.distinct) + 1) for _, v in values)]
        if rows is not None:
            coded = [Coded(c.codes[rows], c.size) for c in coded]
        groups = group(coded, len(self._event_ms) if rows is None else len(rows))
        return rows, groups, outcome(flags, inside, days.codes, days.size)

    def _flagged(self, selection: Selection, dimension: bool) -> Bytes | None:
        """The flags of a line by its value, and last those of a line without one; None if all are 0."""
        if (selection, dimension) not in self._flags:
            values = self._lines.values(selection.extract)
            flags = np.where(passing(values, selection.filter), 0, FILTERED).astype(np.uint8)
            if dimension:
                over = pc.greater(pc.binary_length(values.distinct), DIMENSION_BYTES)
                flags[:-1] |= over.to_numpy(zero_copy_only=False).astype(np.uint8) * np.uint8(LONG)
            flags[-1] = ABSENT
            nothing = values.complete and not flags[:-1].any()
            self._flags[selection, dimension] = None if nothing else flags
        return self._flags[selection, dimension]

    def _escaped(self, extract: Extract) -> pa.Array:
        if extract not in self._keys:
            self._keys[extract] = escape_column(self._lines.values(extract).distinct)
        return self._keys[extract]

    def _period(self, period: Period) -> tuple[Coded, Ints]:
        """Each line's period as a code, and the start of each period."""
        if period not in self._periods:
            instants, times = self.outcomes.instants
            codes, starts = code(pa.array(period.starts(times.to_numpy(zero_copy_only=False))))
            coded = Coded(codes.codes[instants.codes], codes.size)
            self._periods[period] = coded, starts.to_numpy(zero_copy_only=False)
        return self._periods[period]

    def _in_range(self, ranges: tuple[Range, ...] | None) -> Bools | None:
        """Which lines a version counts; None if all."""
        if ranges is None:
            return None
        if ranges not in self._ranges:
            mask = inside(ranges, self._places.partition, self._places.offset)
            self._ranges[ranges] = None if mask.all() else mask
        return self._ranges[ranges]


def _keys(escaped: list[pa.Array], groups: Groups) -> pa.Array:
    """The series key of each group, from the codes of its dimensions."""
    if not escaped:
        return pa.array([""] * groups.size, pa.string())
    parts = [words.take(pa.array(codes)) for words, codes in zip(escaped, groups.codes[1:], strict=True)]
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, "_")
