"""Try a task on a few lines: what each part took from a line, and why one is not counted.

A trial is made of the engine's own steps (`engine.extract`, `engine.parse`), so it shows what both layers do.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from sluice.engine.count import count
from sluice.engine.extract import BatchLines, ExtractedValues, numbers, passing
from sluice.engine.merge import merge
from sluice.engine.outcomes import DIMENSION_BYTES, NOTHING, too_long
from sluice.engine.parse import dead_reason, event_time
from sluice.engine.plan import EnginePlan, Selection
from sluice.engine.results import RESULTS, results
from sluice.engine.set_aside import CAUGHT, reason
from sluice.metrics.texts import ABSENT
from sluice.runtime.sections import Limits
from sluice.tasks.extract import Filter, FilterMode
from sluice.tasks.spec import ActiveTask, TaskSpec
from sluice.tasks.topic_spec import TopicSpec
from sluice.transmission.line_schema import FORGED, LAST_OFFSET, LINE_IN_RECORD, LINE_SCHEMA, UNREADABLE

#: A trial is read by people.
MAX_LINES = 1_000
#: How many characters of a line or a value are shown.
SHOWN = 2_000


class TooManyLines(ValueError):
    """More lines than a trial takes."""

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} lines, {MAX_LINES} are allowed: try the task on fewer")


@dataclass(frozen=True)
class Step:
    """What one condition or dimension did with a line."""

    name: str  # the dimension's, or where/0, where/1 ...
    value: str | None  # None: nothing was extracted
    passes: bool
    verdict: str  # e.g. "not on the white list"
    too_long: bool = False  # the value of a dimension is: then it does not pass


@dataclass(frozen=True)
class MeasureStep:
    """What the measure was. A missing one is counted separately; its line still counts."""

    text: str | None
    number: float | None  # None for a text measure, and where it is missing
    missing: bool


Result = Literal["counted", "filtered", "unmatched", "too_long", "dead"]


@dataclass(frozen=True)
class LineTrial:
    """What a task makes of one line."""

    line: str
    event_time: dt.datetime | None
    dead: str | None  # why no task counts the line
    where: tuple[Step, ...]
    dimensions: tuple[Step, ...]
    measure: MeasureStep | None
    counted: bool
    outcome: Result  # as the platform tallies it (`engine.outcomes`); "dead" if no task counts it
    why: str  # why the line is not counted; empty if it is
    period_start: dt.datetime | None
    period_end: dt.datetime | None
    series: Mapping[str, str] | None  # the values of the dimensions; None if it is not counted


def trial(spec: TaskSpec, topic: TopicSpec, lines: Sequence[bytes], limits: Limits) -> list[LineTrial]:
    """Run the task on the lines, one answer a line. Raises `TooManyLines`.

    `spec` has the values of its lists in place.
    """
    if len(lines) > MAX_LINES:
        raise TooManyLines(len(lines))
    if not lines:
        return []
    return _Trial(spec, topic, list(lines), limits).run()


def failure(spec: TaskSpec, topic: TopicSpec, lines: Sequence[bytes], limits: Limits) -> str | None:
    """Why the task would be set aside on these lines; None if it would not.

    A team's metric may raise, for example.
    """
    return first_results(spec, topic, lines, limits)[1]


def first_results(
    spec: TaskSpec, topic: TopicSpec, lines: Sequence[bytes], limits: Limits
) -> tuple[pa.Table, str | None]:
    """What the task counts on the lines (`results.RESULTS`), and why it would be set aside, if it would."""
    task, size = ActiveTask(0, 1, spec), len(lines)
    columns = {
        "partition": np.zeros(size, np.int32),
        "offset": np.arange(size),
        "arrival": np.zeros(size, np.int64),
        "host": pa.repeat("trial", size),
        "src_file": pa.repeat("trial", size),
        "src_offset": np.arange(size),
        "line": pa.array(lines, pa.binary()),
        FORGED: pa.repeat(False, size),
        UNREADABLE: pa.nulls(size, pa.string()),
        LAST_OFFSET: pa.nulls(size, pa.int64()),
        LINE_IN_RECORD: np.zeros(size, np.int32),
    }
    arrays = [pa.array(columns[each.name], each.type) for each in LINE_SCHEMA]
    batch = pa.record_batch(arrays, schema=LINE_SCHEMA)
    try:
        found = count(batch, EnginePlan.of([task], limits, topic))
        made = results(merge(found.partials), {(0, 1): task})
    except CAUGHT as error:
        return RESULTS.empty_table(), reason(error)
    return made, found.failed.get((0, 1))


class _Trial:
    """The columns of a trial: every step is done for all lines at once, as the engine does it."""

    def __init__(self, spec: TaskSpec, topic: TopicSpec, lines: list[bytes], limits: Limits) -> None:
        self._spec = spec
        plan = EnginePlan.of([ActiveTask(0, 1, spec)], limits, topic)
        self._plan = plan.tasks[0]
        column = pa.array(lines, pa.binary())
        self._lines = BatchLines(column, plan.fields, topic)
        self._event_ms, self._valid = event_time(column, topic)
        self._starts = self._plan.period.starts(self._event_ms)
        self._dead: list[str | None] = dead_reason(column, self._valid, limits).to_pylist()

    def run(self) -> list[LineTrial]:
        where = [
            self._steps(f"where/{number}", selection) for number, selection in enumerate(self._plan.where)
        ]
        names = [dimension.name for dimension in self._spec.dimensions]
        dimensions = [
            self._steps(name, selection, dimension=True)
            for name, selection in zip(names, self._plan.dimensions, strict=True)
        ]
        measures = self._measures()
        return [
            self._line(
                number,
                tuple(steps[number] for steps in where),
                tuple(steps[number] for steps in dimensions),
                None if measures is None else measures[number],
            )
            for number in range(len(self._event_ms))
        ]

    def _line(
        self, number: int, where: tuple[Step, ...], dimensions: tuple[Step, ...], measure: MeasureStep | None
    ) -> LineTrial:
        dead = self._dead[number]
        result, why = _judged((*where, *dimensions))
        if dead:
            result, why = "dead", f"dead letter: {dead}"
        timed = bool(self._valid[number])
        start = int(self._starts[number])
        return LineTrial(
            line=_short(self._lines.text[number].as_py()),
            event_time=_moment(int(self._event_ms[number])) if timed else None,
            dead=dead,
            where=where,
            dimensions=dimensions,
            measure=measure,
            counted=not why,
            outcome=result,
            why=why,
            period_start=_moment(start) if timed else None,
            period_end=_moment(self._plan.period.end(start)) if timed else None,
            series=None if why else {step.name: step.value or "" for step in dimensions},
        )

    def _steps(self, name: str, selection: Selection, *, dimension: bool = False) -> list[Step]:
        values = self._lines.values(selection.extract)
        passed = passing(values, selection.filter)[values.codes].tolist()
        made = []
        for value, ok in zip(_of_lines(values), passed, strict=True):
            if dimension and ok and len((value or "").encode()) > DIMENSION_BYTES:
                made.append(Step(name, _shown(value), False, too_long(name, DIMENSION_BYTES), True))
            else:
                made.append(Step(name, _shown(value), ok, _verdict(selection.filter, value, ok)))
        return made

    def _measures(self) -> list[MeasureStep] | None:
        if self._plan.measure is None:
            return None
        values = self._lines.values(self._plan.measure)
        texts = _of_lines(values)
        if self._plan.measure_type == "text":
            return [MeasureStep(_shown(each), None, each is None or each in ABSENT) for each in texts]
        found = numbers(values).values
        return [
            MeasureStep(_shown(each), None if math.isnan(number) else number, math.isnan(number))
            for each, number in zip(texts, found.tolist(), strict=True)
        ]


def _judged(steps: Sequence[Step]) -> tuple[Result, str]:
    """What becomes of a line with these steps, and why it is not counted; see `engine.outcomes`."""
    lost = [step for step in steps if not step.passes]
    filtered = [step for step in lost if step.value is not None and not step.too_long]
    unmatched = [step for step in lost if step.value is None]
    if not lost:
        return "counted", ""
    if not (filtered or unmatched):
        return "too_long", lost[0].verdict
    (first, *_) = filtered or unmatched
    return "filtered" if filtered else "unmatched", f"{first.name}: {first.verdict}"


def _of_lines(values: ExtractedValues) -> list[str | None]:
    distinct = [*values.distinct.to_pylist(), None]
    return [distinct[code] for code in values.codes]


def _verdict(filter_: Filter | None, value: str | None, passes: bool) -> str:
    if value is None:
        return NOTHING
    if filter_ is None:
        return "no filter"
    named = passes == (filter_.mode == FilterMode.WHITE)
    if filter_.regex is not None:
        return f"{'matches' if named else 'does not match'} the {filter_.mode} pattern {filter_.regex}"
    return f"{'on' if named else 'not on'} the {filter_.mode} list"


def _short(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text)} characters)"


def _shown(text: str | None) -> str | None:
    return None if text is None else _short(text)


def _moment(ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=ms)
