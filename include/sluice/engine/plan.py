"""Tasks compiled for the engine: what to cut, filter, group and accumulate.

The engine does each distinct thing once. A plan is plain data (picklable), made on the driver once a batch
and shipped to the executors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from sluice.engine.fields import resolved
from sluice.engine.outcomes import Sampled
from sluice.metrics import Accumulator, accumulators
from sluice.runtime.arrays import Bools, Ints
from sluice.runtime.sections import Limits
from sluice.tasks.extract import Extract, Filter
from sluice.tasks.period import Period
from sluice.tasks.spec import ActiveTask
from sluice.tasks.topic_spec import TopicSpec

#: Offsets by partition.
Offsets = Mapping[int, int] | Mapping[str, int]


@dataclass(frozen=True)
class Range:
    """The offsets that a version counts: [start, end) for each partition (`task_ranges`).

    There is no end while the version is active.
    """

    start: tuple[tuple[int, int], ...]
    end: tuple[tuple[int, int], ...] | None

    @classmethod
    def of(cls, start: Offsets, end: Offsets | None = None) -> Range:
        return cls(_pairs(start), None if end is None else _pairs(end))


def inside(ranges: Iterable[Range], partition: Ints, offset: Ints) -> Bools:
    """Which of these places in Kafka lie in one of the ranges."""
    mask = np.zeros(len(offset), bool)
    for range_ in ranges:
        start, end = dict(range_.start), None if range_.end is None else dict(range_.end)
        for number in np.unique(partition).tolist():
            # A partition missing from `start` was added later; one missing from `end`, after the end.
            own = (partition == number) & (offset >= start.get(number, 0))
            if end is not None:
                own &= offset < end.get(number, 0)
            mask |= own
    return mask


def _pairs(offsets: Offsets) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((int(p), int(o)) for p, o in offsets.items()))


@dataclass(frozen=True)
class Selection:
    """A value and which of its values pass."""

    extract: Extract
    filter: Filter | None


@dataclass(frozen=True)
class TaskPlan:
    """One task version.

    Versions with equal `dimensions`, `where`, `period` and `ranges` share their groups.
    """

    task_id: int
    version: int
    period: Period
    dimensions: tuple[Selection, ...]
    where: tuple[Selection, ...]
    measure: Extract | None
    measure_type: Literal["number", "text"] | None
    metrics: tuple[str, ...]
    ranges: tuple[Range, ...] | None  # None: every line of the batch
    names: tuple[str, ...] = ()  # of the conditions (where/0 ...) and the dimensions

    @property
    def key(self) -> tuple[int, int]:
        """Task id and version."""
        return self.task_id, self.version

    @property
    def grouped_by(self) -> object:
        """Tasks that are equal in this share their groups."""
        return self.ranges, self.period, self.dimensions, self.where

    @property
    def accumulators(self) -> tuple[Accumulator, ...]:
        return accumulators(self.metrics)


@dataclass(frozen=True)
class EnginePlan:
    """All tasks of a topic that a batch counts."""

    tasks: tuple[TaskPlan, ...]
    limits: Limits
    topic: TopicSpec
    fields: dict[str, tuple[int, ...]]  # for each delimiter, the indexes that expressions take
    sampled: Sampled = frozenset()  # of what skipped lines are not sampled

    def without(self, versions: Collection[tuple[int, int]]) -> EnginePlan:
        """The plan without these versions."""
        if not versions:
            return self
        return replace(self, tasks=tuple(t for t in self.tasks if (t.task_id, t.version) not in versions))

    @classmethod
    def of(
        cls,
        tasks: Iterable[ActiveTask],
        limits: Limits,
        topic: TopicSpec | None = None,
        ranges: Mapping[tuple[int, int], Sequence[Range]] | None = None,
    ) -> EnginePlan:
        """The plan of these tasks.

        `ranges`, by (task id, version), keeps each version to its offsets; a version that they do not name
        counts nothing.
        """
        topic = topic or TopicSpec()
        compiled = []
        for task in tasks:
            spec = task.spec
            cuts = [Selection(resolved(d.extract, topic), d.filter) for d in spec.dimensions]
            own = None if ranges is None else tuple(ranges.get((task.task_id, task.version), ()))
            compiled.append(
                TaskPlan(
                    task_id=task.task_id,
                    version=task.version,
                    period=spec.span,
                    dimensions=tuple(cuts),
                    where=tuple(Selection(resolved(c.extract, topic), c.filter) for c in spec.where),
                    measure=resolved(spec.measure.extract, topic) if spec.measure else None,
                    measure_type=spec.measure.type if spec.measure else None,
                    metrics=spec.metrics,
                    ranges=own,
                    names=(
                        *(f"where/{number}" for number in range(len(spec.where))),
                        *(dimension.name for dimension in spec.dimensions),
                    ),
                )
            )
        fields: dict[str, set[int]] = {}
        for plan in compiled:
            extracts = [s.extract for s in (*plan.dimensions, *plan.where)]
            for extract in (*extracts, *((plan.measure,) if plan.measure else ())):
                if extract.delimiter is not None and extract.index is not None:
                    fields.setdefault(extract.delimiter, set()).add(extract.index)
        cuts_at = {delimiter: tuple(sorted(indexes)) for delimiter, indexes in fields.items()}
        return cls(tuple(compiled), limits, topic, cuts_at)
