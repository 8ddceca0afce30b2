"""What a user asks to be counted, as data (paper 002, section 3.2.1).

A task reads one topic. Each line that passes every condition of `where` and every dimension's filter is
counted in the series named by the values of its dimensions, in the period that its own time falls into::

    - name: hits_by_client
      description: Hits of each client of our offices
      topic: logs
      period: 1d
      timezone: Europe/Berlin                       # where a day begins and ends; UTC if left out
      where:                                        # filters without grouping
        - {extract: {field: status}, filter: {mode: black, values: ["304"]}}
        - {extract: {field: client}, filter: {mode: white, set: eu_offices}}
      dimensions:                                   # filters (optional) and groups
        - {name: client, extract: {field: client}}
      measure: {field: bytes, type: number}
      metrics: [count, sum, avg, min, max, missing]
      grouping: auto                                # how lines get to workers; changes no result

A line from which a dimension or a condition extracts nothing (too few fields, no match) is not counted by
that task. A line without a measure ("-", nothing, no decimal number up to 1e100) is counted, and `missing`
says how many there are. docs/tasks.md describes the whole language; `tasks.sql` compiles a SELECT to the same
spec.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from sluice.metrics import metric
from sluice.tasks.expressions import MAX_PATTERN
from sluice.tasks.extract import MAX_INDEX, MAX_VALUES, Extract, Filter
from sluice.tasks.grouping import GroupingSpec
from sluice.tasks.period import Period, parse_period
from sluice.tasks.spec_base import Description, Model, Name, TopicName
from sluice.tasks.topic_spec import TimeSpec, TopicSpec
from sluice.tasks.zones import check_zone

#: 8 values of 1 KiB (at most 3 KiB once escaped) and 9 names stay below HBase's 32,767 bytes a row key.
MAX_DIMENSIONS = 8
MAX_CONDITIONS = 16
MAX_METRICS = 32
MAX_SQL = 16_384


class Condition(Model):
    """A filter on a value that is not a dimension."""

    extract: Extract
    filter: Filter


class Dimension(Model):
    """One coordinate of a series: `<name, extraction, filter>` of paper 002."""

    name: Name
    extract: Extract
    filter: Filter | None = None


class Measure(Extract):
    """What metrics are computed of: a decimal number, or (for unique and top-k) any text."""

    type: Literal["number", "text"] = "number"

    @property
    def extract(self) -> Extract:
        return Extract.model_construct(**{name: getattr(self, name) for name in Extract.model_fields})


class TaskSpec(Model):
    """One statistics task. Equal specs count the same (see `counts_as`).

    A task that was written as SQL keeps its text in `sql`; what it counts is in the other, compiled fields.
    """

    name: Name
    description: Description | None = None  # for people: no layer looks at it
    topic: TopicName
    period: str
    timezone: str = "UTC"
    where: Annotated[tuple[Condition, ...], Field(strict=False, max_length=MAX_CONDITIONS)] = ()
    dimensions: Annotated[tuple[Dimension, ...], Field(strict=False, max_length=MAX_DIMENSIONS)] = ()
    measure: Measure | None = None
    metrics: Annotated[tuple[str, ...], Field(strict=False, min_length=1, max_length=MAX_METRICS)]
    grouping: GroupingSpec | None = None  # None: the topic's
    sql: Annotated[str, StringConstraints(max_length=MAX_SQL)] | None = None  # the SELECT it is compiled from

    @field_validator("period")
    @classmethod
    def _period(cls, text: str) -> str:
        parse_period(text)
        return text

    @field_validator("dimensions")
    @classmethod
    def _distinct_names(cls, dimensions: tuple[Dimension, ...]) -> tuple[Dimension, ...]:
        names = [d.name for d in dimensions]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two dimensions are called {name!r}: give each its own name")
        return dimensions

    @field_validator("metrics")
    @classmethod
    def _known_metrics(cls, metrics: tuple[str, ...]) -> tuple[str, ...]:
        for name in metrics:
            metric(name)
            if metrics.count(name) > 1:
                raise ValueError(f"metric {name!r} is named twice: name it once")
        return metrics

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, name: str) -> str:
        return check_zone(name)

    @model_validator(mode="after")
    def _measured(self) -> Self:
        kinds = {name: metric(name).measure for name in self.metrics}
        needing = [name for name, kind in kinds.items() if kind != "none"]
        if needing and self.measure is None:
            raise ValueError(
                f"metrics {', '.join(needing)} need a measure: add measure: {{field: bytes}}, "
                "or ask for count alone"
            )
        if self.measure is not None and not needing:
            raise ValueError(
                "the measure is used by no metric: add sum, avg, min or max, or drop the measure"
            )
        numeric = [name for name, kind in kinds.items() if kind == "number"]
        if numeric and self.measure is not None and self.measure.type == "text":
            raise ValueError(
                f"metrics {', '.join(numeric)} are computed of numbers, and the measure is a text: "
                "give it type: number, or drop them"
            )
        return self

    @property
    def span(self) -> Period:
        """How the task cuts time."""
        return Period(parse_period(self.period), self.timezone)

    @property
    def sets(self) -> frozenset[str]:
        """The value lists that the task's filters name."""
        filters = (*(c.filter for c in self.where), *(d.filter for d in self.dimensions))
        return frozenset(f.set for f in filters if f is not None and f.set is not None)

    def counts_as(self, other: Self) -> bool:
        """Whether both count the same: then they are one version of a task.

        Neither the description nor the grouping nor the text of the SELECT matters.
        """
        apart = {"description": None, "grouping": None, "sql": None}
        return self.model_copy(update=apart) == other.model_copy(update=apart)

    def with_sets(self, lists: Mapping[str, tuple[str, ...]]) -> Self:
        """The task as the engine takes it: with the values of lists in place of their names."""
        if not self.sets:
            return self

        def resolved(filter_: Filter | None) -> dict[str, Filter | None]:
            if filter_ is None or filter_.set is None:
                return {"filter": filter_}
            return {"filter": filter_.model_copy(update={"set": None, "values": lists[filter_.set]})}

        return self.model_copy(
            update={
                "where": tuple(c.model_copy(update=resolved(c.filter)) for c in self.where),
                "dimensions": tuple(d.model_copy(update=resolved(d.filter)) for d in self.dimensions),
            }
        )

    def document(self) -> dict[str, Any]:
        """The task as a file or a request writes it, without defaults; `parse_documents` takes it."""
        document = self.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
        if self.sql is None:
            return document
        kept = ("name", "description", "timezone", "grouping", "sql")
        return {key: document[key] for key in kept if key in document}


@dataclass(frozen=True)
class ActiveTask:
    """One version of a task, as the layers run it. Results of different versions never mix."""

    task_id: int
    version: int
    spec: TaskSpec

    @property
    def label(self) -> str:
        """The task's part of every key: id and version."""
        return f"{self.task_id}v{self.version}"


__all__ = [
    "MAX_INDEX",
    "MAX_PATTERN",
    "MAX_SQL",
    "MAX_VALUES",
    "ActiveTask",
    "Condition",
    "Dimension",
    "Extract",
    "Filter",
    "GroupingSpec",
    "Measure",
    "TaskSpec",
    "TimeSpec",
    "TopicSpec",
]
