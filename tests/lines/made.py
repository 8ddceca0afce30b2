"""Answers over lines in memory: files and Kafka's rest are batches, and a basis is made by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from sluice.batch.barred import PLACES
from sluice.engine.plan import EnginePlan, Range
from sluice.lines.answer import LinesAnswer
from sluice.lines.basis import Basis, Result
from sluice.lines.candidates import Candidates
from sluice.lines.query import LinesQuery
from sluice.runtime.sections import Limits
from sluice.tasks.spec import ActiveTask, TaskSpec, TopicSpec
from sluice.transmission.line_schema import LINE_SCHEMA

DAY = date(2015, 5, 17)


@dataclass(frozen=True)
class Copy:
    """A line as it stands in a record."""

    partition: int
    offset: int
    arrival: int
    src_offset: int | None  # None: it was not collected from a file
    line: bytes
    line_in_record: int = 0
    forged: bool = False


def batch(copies: Sequence[Copy]) -> pa.RecordBatch:
    rows = [
        {
            "partition": each.partition,
            "offset": each.offset,
            "arrival": each.arrival,
            "host": None if each.src_offset is None else "web1",
            "src_file": None if each.src_offset is None else "access.log",
            "src_offset": each.src_offset,
            "line": each.line,
            "forged": each.forged,
            "line_in_record": each.line_in_record,
        }
        for each in copies
    ]
    return pa.RecordBatch.from_pylist(rows, schema=LINE_SCHEMA)


@dataclass
class MadeSources:
    """Each file is a list of copies; so is what only Kafka has."""

    of: Sequence[Sequence[Copy]]
    rest: Sequence[Copy] = ()
    gone: list[str] = field(default_factory=list)
    read: list[int] = field(default_factory=list)

    @property
    def files(self) -> list[Any]:
        first = [min(copy.arrival for copy in each) for each in self.of]
        ordered = sorted(range(len(self.of)), key=first.__getitem__)
        return [SimpleNamespace(n=n, arrival_min=first[n], lines=len(self.of[n]), bytes=1) for n in ordered]

    def in_kafka(self) -> Iterator[pa.RecordBatch]:
        if self.rest:
            yield batch(self.rest)

    def in_file(self, file: Any) -> Iterator[pa.RecordBatch]:
        self.read.append(file.n)
        yield batch(self.of[file.n])


def answer(
    spec: TaskSpec,
    query: LinesQuery,
    sources: MadeSources,
    *,
    below: Mapping[int, int],
    ranges: Sequence[Range] = (Range.of({}),),
    filled: Mapping[date, Range] | None = None,
    counted: int | None = None,
    limits: Limits | None = None,
    barred: pa.Table | None = None,
) -> LinesAnswer:
    """The lines of the period that `query` names, of those below these offsets."""
    task = ActiveTask(1, 1, spec)
    basis = Basis(
        task=task,
        start=query.period,
        end=spec.span.end(query.period),
        result=Result(counted, "open", 7),
        below=dict.fromkeys((DAY, date(2015, 5, 18)), Range.of({}, below)),
        ranges=ranges,
        filled=filled or {},
        barred=barred or PLACES.empty_table(),
    )
    plan = EnginePlan.of([task], limits or Limits(), TopicSpec(name=spec.topic))
    given: Any = sources
    return LinesAnswer(Candidates(query, basis, plan), given, lambda _: None)
