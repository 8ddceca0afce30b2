"""What erasing lines takes from the sums: counted by the same engine that had counted them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta

import numpy as np
import pyarrow as pa

from sluice.archive.contents import as_records
from sluice.batch.task_versions import before, task_versions
from sluice.engine.count import count
from sluice.engine.outcomes import TOPIC, summed
from sluice.engine.plan import EnginePlan
from sluice.erasure.copies import ErasedCopies
from sluice.erasure.matching import ErasedValue
from sluice.runtime.days import DAY_MS
from sluice.runtime.settings import Settings
from sluice.storage.postgres import engine
from sluice.storage.tables.backfills import Backfills
from sluice.storage.tables.erasures import ErasedTally, FileErasure
from sluice.storage.tables.tallies import EPOCH, TallyLayer
from sluice.transmission.redacted import redact

#: By layer, the plan by which it counted a day's lines.
DayPlans = dict[TallyLayer, EnginePlan]


def day_plans(settings: Settings, topic: str, value: ErasedValue) -> Callable[[date], DayPlans]:
    """How the speed layer and backfills counted the lines of a day; each day's plans are made once.

    No backfill may fill days meanwhile.
    """
    known: dict[date, DayPlans] = {}
    database = engine(settings)

    def of(day: date) -> DayPlans:
        if day not in known:
            versions = task_versions(database, topic, day)
            made = {
                TallyLayer.ONLINE: EnginePlan.of(versions.tasks, value.limits, value.topic, versions.ranges)
            }
            # A day that its backfill has not projected yet has tallies, too.
            own = {(each.task_id, each.version) for each in Backfills(database).filled(topic, day)}
            if filled := [task for task in versions.tasks if (task.task_id, task.version) in own]:
                earlier = {version: [before(versions.ranges[version])] for version in own}
                made[TallyLayer.FILLED] = EnginePlan.of(filled, value.limits, value.topic, earlier)
            known[day] = made
        return known[day]

    return of


@dataclass
class FileEraser:
    """Redacts the lines of one file, and accounts for them (`archive.redaction.LineEraser`)."""

    partition: int
    erasure: int
    value: ErasedValue
    copies: ErasedCopies
    plans: Callable[[date], DayPlans]
    _lines: int = 0
    _dead: int = 0
    _counted: Counter[str] = field(default_factory=Counter)
    _days: set[str] = field(default_factory=set)
    _tallies: list[tuple[TallyLayer, pa.Table]] = field(default_factory=list)

    def __call__(self, lines: pa.Table) -> pa.Table:
        (batch,) = lines.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], lines.schema)]
        records = as_records(batch, self.partition)
        found = self.value.judge(records)
        if not found.chosen.any():
            return lines
        rows = np.flatnonzero(found.chosen)
        own = records.take(pa.array(rows))
        ms, timed, dead = found.event_ms[rows], found.timed[rows], found.dead[rows]
        first = self.copies.first(own)
        self._lines += len(rows)
        self._dead += int((first & dead).sum())
        days = ms // DAY_MS
        self._days |= {_named(day).isoformat() for day in np.unique(days[timed]).tolist()}
        for day in np.unique(days[first & ~dead]).tolist():
            self._count(_named(day), own.filter(pa.array(first & ~dead & (days == day))))
        return redact(lines, found.chosen, self.erasure, found.event_ms, found.timed)

    def _count(self, day: date, lines: pa.RecordBatch) -> None:
        self._counted[day.isoformat()] += len(lines)
        for layer, plan in self.plans(day).items():
            self._tallies.append((layer, count(lines, plan).tallies))

    @property
    def account(self) -> FileErasure:
        """Of all lines so far."""
        return FileErasure(
            lines=self._lines,
            counted=dict(self._counted),
            dead=self._dead,
            days=tuple(sorted(self._days)),
            tallies=tuple(self._summed()),
        )

    def _summed(self) -> Iterator[ErasedTally]:
        for layer in (TallyLayer.ONLINE, TallyLayer.FILLED):
            for row in summed(table for own, table in self._tallies if own == layer).to_pylist():
                # The topic's lines are the speed layer's, whoever counts them for a task.
                if layer == TallyLayer.ONLINE or (row["task_id"], row["version"]) != TOPIC:
                    yield ErasedTally(layer.value, **{**row, "day": _named(row["day"]).isoformat()})


def _named(day: int) -> date:
    return EPOCH + timedelta(days=day)
