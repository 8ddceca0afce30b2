"""Which lines an erasure is of: those from which one of a topic's extractions takes the value.

A line that no task can count (a dead letter) is matched by its text, because nothing may be extractable from
it: it matches if the value stands in it, and no letter or digit right before or after it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa

from sluice.batch.barred import PLACES, among
from sluice.engine.extract import BatchLines
from sluice.engine.parse import dead_reason, event_time, refused
from sluice.runtime.arrays import Bools, Ints
from sluice.runtime.days import DAY_MS
from sluice.runtime.sections import Limits
from sluice.storage.tables import schema
from sluice.tasks.extract import Extract
from sluice.tasks.topic_spec import TopicFormat, TopicSpec
from sluice.tasks.versions import stored_spec
from sluice.transmission.redacted import are_redacted

_EPOCH = date(1970, 1, 1)


class UnknownErasureDimension(LookupError):
    """Neither a task of the topic nor its format has a value of that name."""


@dataclass(frozen=True)
class JudgedLines:
    """What is known of lines: which are to be erased, when they happened, and whether no task counts them.

    elsewhere: lines without a time that would be erased, too, had they arrived on a day that is asked for.
    One may be the first copy of a line that is erased.
    """

    chosen: Bools
    elsewhere: Bools
    event_ms: Ints
    timed: Bools
    dead: Bools


@dataclass(frozen=True)
class ErasedValue:
    """The lines of one value, of event days from `first_day` to `last_day` (UTC), that came before the cut.

    cut: by partition, where it ends. A line without a time is of the day on which it arrived. barred: places
    of lines that no task counts (`batch.barred`).
    """

    value: str
    extracts: Sequence[Extract]
    topic: TopicSpec
    limits: Limits
    cut: Mapping[int, int]
    first_day: date | None = None
    last_day: date | None = None
    barred: pa.Table = field(default_factory=PLACES.empty_table)

    def judge(self, lines: pa.RecordBatch) -> JudgedLines:
        """Judge lines (LINE_SCHEMA) of one partition."""
        text = lines.column("line")
        ms, timed = event_time(text, self.topic)
        dead = dead_reason(text, timed, self.limits, refused(lines)).is_valid().to_numpy(False)
        dead |= among(lines, self.barred)
        asked = self._of_days(np.where(timed, ms, lines.column("arrival").to_numpy()))
        found = self._below_cut(lines) & ~are_redacted(lines) & (asked | ~timed)
        rows = np.flatnonzero(found)
        found[rows] = self._with_value(text.take(pa.array(rows)), dead[rows])
        return JudgedLines(found & asked, found & ~asked, ms, timed, dead)

    def has_day(self, day: str) -> bool:
        """Whether lines of that day are asked for."""
        last = self.last_day.isoformat() if self.last_day else None
        return (self.first_day is None or day >= self.first_day.isoformat()) and (last is None or day <= last)

    def _of_days(self, when: Ints) -> Bools:
        """Which lines are of the days that are asked for."""
        days = when // DAY_MS
        found = np.ones(len(when), bool)
        if self.first_day is not None:
            found &= days >= (self.first_day - _EPOCH).days
        if self.last_day is not None:
            found &= days <= (self.last_day - _EPOCH).days
        return found

    def _below_cut(self, lines: pa.RecordBatch) -> Bools:
        if not len(lines):
            return np.zeros(0, bool)
        found: Bools = lines.column("offset").to_numpy() < self.cut.get(lines["partition"][0].as_py(), 0)
        return found

    def _with_value(self, text: pa.Array, dead: Bools) -> Bools:
        found = np.zeros(len(text), bool)
        if not len(text):
            return found
        cut_out = BatchLines(text, {}, self.topic)
        for extract in self.extracts:
            values = cut_out.values(extract)
            same = np.append(np.asarray(pc.equal(values.distinct, self.value)), False)
            found |= same[values.codes]
        own = self.value.encode()
        near = np.flatnonzero(dead & ~found & np.asarray(pc.match_substring(text, self.value)))
        alone = re.compile(rb"(?<![0-9A-Za-z])" + re.escape(own) + rb"(?![0-9A-Za-z])")
        found[near] = [bool(alone.search(text[int(row)].as_py())) for row in near]
        return found


def extracts_of(database: sa.Engine, topic: TopicSpec, name: str) -> list[Extract]:
    """How the topic's lines have a value of that name: in any version of any task of it, or by its format.

    Raises UnknownErasureDimension.
    """
    v, t = schema.task_versions.c, schema.tasks.c
    query = sa.select(v.spec).join(schema.tasks, t.id == v.task_id).where(t.topic == topic.name)
    known: dict[str, list[Extract]] = {}
    with database.connect() as connection:
        for said in connection.scalars(query.order_by(v.task_id, v.version)):
            for dimension in stored_spec(said).dimensions:
                own = known.setdefault(dimension.name, [])
                if dimension.extract not in own:
                    own.append(dimension.extract)
    found = list(known.get(name, ()))
    own_field = Extract(field=name)
    if topic.unknown_field(own_field) is None and (not found or topic.format != TopicFormat.JSON):
        found += [own_field] if own_field not in found else []
    if not found:
        names = ", ".join(sorted(known)) or "none"
        raise UnknownErasureDimension(
            f"--dimension {name!r}: no task of topic {topic.name} has a dimension of that name, and its "
            f"format has no such field; the dimensions are: {names}"
        )
    return found
