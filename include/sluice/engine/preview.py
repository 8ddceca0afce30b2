"""What each step of a task keeps of a few lines, and the first results.

The steps come in the order in which a line takes them: its time, the conditions, the dimensions. A line is
lost at the first step that does not let it pass; later steps do not meet it. The measure loses no line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sluice.engine.rowkey import series_values
from sluice.engine.trial import LineTrial, first_results, trial
from sluice.runtime.sections import Limits
from sluice.tasks.spec import TaskSpec
from sluice.tasks.topic_spec import TopicSpec

#: Values of a step, and rows of results, that a preview shows.
VALUES = 8
ROWS = 20

Fate = Literal["kept", "filtered", "missing", "too long"]


@dataclass(frozen=True)
class Met:
    """A value that a step met, in how many lines, and what became of them."""

    value: str | None  # None: nothing was extracted
    lines: int
    fate: Fate


@dataclass(frozen=True)
class StepPreview:
    """What one step did: came = kept + filtered + missing + too_long.

    The measure keeps every line: `missing` of them have no measure.
    """

    name: str  # time, where/0 ..., the dimension's name, measure
    pointer: str  # into the task's document: /where/0, /dimensions/1, /measure
    came: int
    kept: int
    filtered: int
    missing: int
    values: tuple[Met, ...]  # the most frequent first
    too_long: int = 0  # values of a dimension over the limit


@dataclass(frozen=True)
class PreviewRow:
    """A result on the lines: the period's start in ms, the series, and a text by metric."""

    period_start: int
    series: tuple[str, ...]
    metrics: tuple[str | None, ...]


@dataclass(frozen=True)
class Preview:
    """A task on lines."""

    lines: tuple[LineTrial, ...]
    steps: tuple[StepPreview, ...]
    rows: tuple[PreviewRow, ...]  # the first of them: newest periods first, then the most lines
    more_rows: int
    error: str | None  # why the task would be set aside

    @property
    def counted(self) -> int:
        return sum(line.counted for line in self.lines)


def preview(spec: TaskSpec, topic: TopicSpec, lines: Sequence[bytes], limits: Limits) -> Preview:
    """Run the task on the lines. Raises `trial.TooManyLines`.

    `spec` has the values of its lists in place.
    """
    tried = trial(spec, topic, lines, limits)
    rows, error = _rows(spec, topic, lines, limits)
    return Preview(
        tuple(tried), tuple(_steps(spec, tried)), tuple(rows[:ROWS]), max(0, len(rows) - ROWS), error
    )


def _steps(spec: TaskSpec, tried: Sequence[LineTrial]) -> list[StepPreview]:
    alive = [line for line in tried if not line.dead]
    dead = Counter(line.dead for line in tried if line.dead)
    lost = tuple(Met(reason, lines, "missing") for reason, lines in dead.most_common(VALUES))
    made = [StepPreview("time", "", len(tried), len(alive), 0, len(tried) - len(alive), lost)]
    for number in range(len(spec.where) + len(spec.dimensions)):
        own = number - len(spec.where)
        name, pointer = f"where/{number}", f"/where/{number}"
        if own >= 0:
            name, pointer = spec.dimensions[own].name, f"/dimensions/{own}"
        step, alive = _step(name, pointer, number, alive)
        made.append(step)
    if spec.measure is not None:
        made.append(_measure(alive))
    return made


def _step(
    name: str, pointer: str, number: int, lines: Sequence[LineTrial]
) -> tuple[StepPreview, list[LineTrial]]:
    met: Counter[tuple[str | None, Fate]] = Counter()
    alive = []
    for line in lines:
        step = (*line.where, *line.dimensions)[number]
        fate: Fate = "kept" if step.passes else "missing" if step.value is None else "filtered"
        fate = "too long" if step.too_long else fate
        met[step.value, fate] += 1
        if step.passes:
            alive.append(line)
    return _summed(name, pointer, met), alive


def _measure(lines: Sequence[LineTrial]) -> StepPreview:
    met: Counter[tuple[str | None, Fate]] = Counter()
    for line in lines:
        if line.measure is not None:
            met[line.measure.text, "missing" if line.measure.missing else "kept"] += 1
    return _summed("measure", "/measure", met)


def _summed(name: str, pointer: str, met: Counter[tuple[str | None, Fate]]) -> StepPreview:
    by: Counter[Fate] = Counter()
    for (_, fate), lines in met.items():
        by[fate] += lines
    values = tuple(Met(value, lines, fate) for (value, fate), lines in met.most_common(VALUES))
    lost = by["filtered"], by["missing"]
    return StepPreview(name, pointer, by.total(), by["kept"], *lost, values, by["too long"])


def _rows(
    spec: TaskSpec, topic: TopicSpec, lines: Sequence[bytes], limits: Limits
) -> tuple[list[PreviewRow], str | None]:
    table, error = first_results(spec, topic, lines, limits)
    found: dict[tuple[int, str], dict[str, str]] = {}
    for each in table.select(["period_start", "key", "metric", "text"]).to_pylist():
        found.setdefault((each["period_start"], each["key"]), {})[each["metric"]] = each["text"]
    ordered = sorted(found, key=lambda at: (-at[0], -float(found[at].get("count", "0")), at[1]))
    size = len(spec.dimensions)
    rows = [
        PreviewRow(
            start, tuple(series_values(key, size)), tuple(found[start, key].get(m) for m in spec.metrics)
        )
        for start, key in ordered
    ]
    return rows, error
