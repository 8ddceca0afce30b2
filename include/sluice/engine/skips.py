"""What became of the lines of one pass: tallies by task and day, and samples of the skipped lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from sluice.engine.extract import BatchLines
from sluice.engine.groups import Coded, code
from sluice.engine.outcomes import (
    ABSENT,
    DIMENSION_BYTES,
    NOTHING,
    SAMPLE_BYTES,
    SAMPLES,
    SKIPPED,
    TOO_LONG,
    TOPIC,
    UNMATCHED,
    TaskOutcome,
    outcome,
    tallies,
    too_long,
)
from sluice.engine.plan import EnginePlan, TaskPlan
from sluice.engine.set_aside import Version
from sluice.runtime.arrays import Ints
from sluice.runtime.days import DAY_MS
from sluice.tasks.topic_spec import TopicFormat

#: Why a line with a time is not of its topic's format.
_OTHER_FORMAT = {
    TopicFormat.COMBINED: "not a line of an access log",
    TopicFormat.JSON: "not JSON",
    TopicFormat.DELIMITED: "fewer columns than the topic names",
}


@dataclass(frozen=True)
class Places:
    """Lines and their places in Kafka."""

    line: pa.Array
    partition: Ints
    offset: Ints
    line_in_record: Ints


class OutcomeCollector:
    """Collects the outcomes of a pass over lines that have a time."""

    def __init__(self, lines: BatchLines, plan: EnginePlan, event_ms: Ints, places: Places) -> None:
        self._lines, self._plan, self._event_ms, self._places = lines, plan, event_ms, places
        self._found: list[tuple[Version, Ints]] = []
        self._samples: list[dict[str, object]] = []

    @cached_property
    def instants(self) -> tuple[Coded, pa.Array]:
        """Each line's time as a code, and each time: lines of one instant are of one period and one day."""
        return code(pa.array(self._event_ms))

    @cached_property
    def days(self) -> tuple[Coded, Ints]:
        """Each line's day of event time as a code, and each day (since the epoch)."""
        instants, times = self.instants
        codes, days = code(pa.array(times.to_numpy(zero_copy_only=False) // DAY_MS))
        return Coded(codes.codes[instants.codes], codes.size), days.to_numpy(zero_copy_only=False)

    @property
    def tallies(self) -> pa.Table:
        """TALLIES of the topic and of each task that was noted."""
        return tallies(self._found, self.days[1])

    @property
    def skipped(self) -> pa.Table:
        """SKIPPED: a few samples."""
        return pa.Table.from_pylist(self._samples, SKIPPED)

    def judge_topic(self) -> None:
        """Tally the lines that are of the topic's format, and those that are not."""
        days, _ = self.days
        fits = self._lines.of_format()
        flags = np.zeros(len(days.codes), np.uint8)
        if fits is not None:
            flags[~fits] = ABSENT
        found = outcome(flags, np.ones(len(flags), bool), days.codes, days.size)
        self._found.append((TOPIC, found.flags))
        self._sample(TOPIC, UNMATCHED, found.absent, lambda _: _OTHER_FORMAT[self._plan.topic.format])

    def note(self, task: TaskPlan, found: TaskOutcome | None) -> None:
        """Tally what the task did with each line, and sample what it skipped."""
        if found is None:
            return
        self._found.append((task.key, found.flags))
        if len(found.absent):
            self._sample(task.key, UNMATCHED, found.absent, partial(self._lacks, task))
        if len(found.long):
            self._sample(task.key, TOO_LONG, found.long, partial(self._exceeds, task))

    def _sample(self, version: Version, kind: str, rows: Ints, why: Callable[[int], str]) -> None:
        codes, days = self.days
        taken: Counter[int] = Counter()
        for row in rows.tolist():
            day = int(days[codes.codes[row]])
            if taken[day] == SAMPLES or (*version, kind, day) in self._plan.sampled:
                continue
            taken[day] += 1
            line = self._places.line[row].as_py()
            self._samples.append(
                {
                    "day": day,
                    "task_id": version[0],
                    "version": version[1],
                    "kind": kind,
                    "reason": why(row),
                    "partition": int(self._places.partition[row]),
                    "offset": int(self._places.offset[row]),
                    "line_in_record": int(self._places.line_in_record[row]),
                    "bytes": len(line),
                    "line": line[:SAMPLE_BYTES],
                }
            )

    def _lacks(self, task: TaskPlan, row: int) -> str:
        """Which condition or dimension takes nothing from the line."""
        for name, selection in zip(task.names, (*task.where, *task.dimensions), strict=True):
            values = self._lines.values(selection.extract)
            if values.codes[row] == len(values.distinct):
                return f"{name}: {NOTHING}"
        return NOTHING

    def _exceeds(self, task: TaskPlan, row: int) -> str:
        """Which dimension has too long a value in the line."""
        for name, dimension in zip(task.names[len(task.where) :], task.dimensions, strict=True):
            values = self._lines.values(dimension.extract)
            if len(values.distinct[int(values.codes[row])].as_py().encode()) > DIMENSION_BYTES:
                return too_long(name, DIMENSION_BYTES)
        return ""
