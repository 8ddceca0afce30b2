"""What a user asks to be counted, as data (seed 002, section 3.2.1).

A task reads one topic. Each line that passes every condition of `where` and every dimension's filter is
counted in the series named by the values of its dimensions, in the period that its own time falls into::

    - name: hits_by_client
      topic: logs
      period: 5m
      where:                                        # filters without grouping
        - {extract: {delimiter: " ", index: 8}, filter: {mode: black, values: ["304"]}}
      dimensions:                                   # filters (optional) and groups
        - {name: client, extract: {delimiter: " ", index: 0}}
      measure: {delimiter: " ", index: 9, type: number}
      metrics: [count, sum, avg, min, max, missing]

A line from which a dimension or a condition extracts nothing (too few fields, no match) is not counted by
that task. A line without a measure ("-", nothing, no finite decimal number) is counted, and `missing` says
how often.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator, model_validator

from sluice.metrics import metric
from sluice.tasks.expressions import MAX_PATTERN, groups
from sluice.tasks.period import parse_period

#: 8 values of 1 KiB, escaped to at most 3 KiB each, and 9 names stay below HBase's 32,767 bytes a row key.
MAX_DIMENSIONS = 8
MAX_CONDITIONS = 16
MAX_METRICS = 32
MAX_VALUES = 10_000
MAX_INDEX = 1023

Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]*$", max_length=64)]
TopicName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$", max_length=200)]


class _Spec(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Extract(_Spec):
    """How a value is cut out of a line: by delimiter, by regular expression, or by both, in this order.

    `index` counts from 0 the fields between occurrences of the *single* `delimiter`: two delimiters in a row
    enclose an empty field. `group` is the capture group taken (0: the whole match); when it is left out, the
    first group if the pattern has one, else the whole match. A pattern matches anywhere, unless anchored.
    """

    delimiter: Annotated[str, StringConstraints(min_length=1, max_length=16)] | None = None
    index: Annotated[int, Field(ge=0, le=MAX_INDEX)] | None = None
    regex: Annotated[str, StringConstraints(min_length=1)] | None = None
    group: Annotated[int, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.delimiter is None and self.regex is None:
            raise ValueError(
                'nothing to extract by: give {delimiter: " ", index: 0} or {regex: "..."} or both'
            )
        if self.delimiter is None and self.index is not None:
            raise ValueError(f"index {self.index} without a delimiter: add the delimiter, or drop the index")
        if self.delimiter is not None and self.index is None:
            raise ValueError(f"delimiter {self.delimiter!r} without an index: add the field's index, from 0")
        if self.regex is None:
            if self.group is not None:
                raise ValueError(f"group {self.group} without a regex: add the regex, or drop the group")
            return self
        count = groups(self.regex)
        if self.group is not None and self.group > count:
            raise ValueError(
                f"group {self.group} of a pattern with {count} groups: use 0 (the whole match) to {count}"
            )
        return self

    @property
    def capture(self) -> int:
        """The capture group to take; `regex` must be given."""
        if self.group is not None:
            return self.group
        return min(groups(self.regex or ""), 1)


class Filter(_Spec):
    """Which values pass: by a white list those named (by value or pattern), by a black list all others."""

    mode: Literal["white", "black"]
    values: Annotated[tuple[str, ...], Field(strict=False, min_length=1, max_length=MAX_VALUES)] | None = None
    regex: Annotated[str, StringConstraints(min_length=1)] | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.values is None) == (self.regex is None):
            raise ValueError('a filter has either values or a regex: give {values: ["304"]} or {regex: "^3"}')
        if self.regex is not None:
            groups(self.regex)
        return self


class Condition(_Spec):
    """A filter on a value that is not a dimension."""

    extract: Extract
    filter: Filter


class Dimension(_Spec):
    """One coordinate of a series: `<name, extraction, filter>` of seed 002."""

    name: Name
    extract: Extract
    filter: Filter | None = None


class Measure(Extract):
    """The quantity that metrics are computed of, as a decimal number."""

    type: Literal["number"] = "number"

    @property
    def extract(self) -> Extract:
        return Extract(delimiter=self.delimiter, index=self.index, regex=self.regex, group=self.group)


class TaskSpec(_Spec):
    """One statistics task. Two specs that are equal count the same."""

    name: Name
    topic: TopicName
    period: str
    where: Annotated[tuple[Condition, ...], Field(strict=False, max_length=MAX_CONDITIONS)] = ()
    dimensions: Annotated[tuple[Dimension, ...], Field(strict=False, max_length=MAX_DIMENSIONS)] = ()
    measure: Measure | None = None
    metrics: Annotated[tuple[str, ...], Field(strict=False, min_length=1, max_length=MAX_METRICS)]

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

    @model_validator(mode="after")
    def _measured(self) -> Self:
        needing = [name for name in self.metrics if metric(name).measure]
        if needing and self.measure is None:
            raise ValueError(
                f"metrics {', '.join(needing)} need a measure: add measure: {{delimiter: ..., index: ...}}, "
                "or ask for count alone"
            )
        if self.measure is not None and not needing:
            raise ValueError(
                "the measure is used by no metric: add sum, avg, min or max, or drop the measure"
            )
        return self

    @property
    def period_ms(self) -> int:
        return parse_period(self.period) * 1000


@dataclass(frozen=True)
class ActiveTask:
    """One version of a task, as the layers run it. Results of versions never mix."""

    task_id: int
    version: int
    spec: TaskSpec

    @property
    def label(self) -> str:
        """The task's part of every key: id and version."""
        return f"{self.task_id}v{self.version}"


class TopicSpec(_Spec):
    """What the lines of a topic look like. `combined`: Apache's access log, combined or common."""

    name: TopicName = "logs"
    format: Literal["combined"] = "combined"


__all__ = [
    "MAX_PATTERN",
    "ActiveTask",
    "Condition",
    "Dimension",
    "Extract",
    "Filter",
    "Measure",
    "TaskSpec",
    "TopicSpec",
]
