"""What a reader of results asks for, as data: the command line, REST and programs share it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Self

from pydantic import Field, StringConstraints, field_validator, model_validator

from sluice.tasks.expressions import BadPattern, groups
from sluice.tasks.period import BadPeriod, parse_period
from sluice.tasks.spec import ActiveTask
from sluice.tasks.spec_base import Model

MAX_TASKS = 16
MAX_CONDITIONS = 16
MAX_VALUES = 1_000
MAX_TOP = 1_000
MAX_TEXT = 4_096
#: A roll-up to this period makes one period of everything that was asked for.
ALL = "all"
PERIOD = "period"

Text = Annotated[str, StringConstraints(max_length=MAX_TEXT)]


class BadQuery(ValueError):
    """A query that a task cannot answer; the message names the field, the value and the remedy."""


class Where(Model):
    """A condition on a dimension: one of some values, a prefix, or a pattern found anywhere in the value."""

    dimension: Text
    values: Annotated[tuple[Text, ...], Field(strict=False, min_length=1, max_length=MAX_VALUES)] | None = (
        None
    )
    prefix: Text | None = None
    pattern: Text | None = None

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            try:
                groups(pattern)
            except BadPattern as error:
                raise ValueError(f"pattern: {error}") from None
        return pattern

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = [name for name in ("values", "prefix", "pattern") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"{self.dimension}: give exactly one of values, prefix and pattern")
        return self


class Top(Model):
    """The `n` series whose `metric` over the whole time is largest; all others become one series."""

    n: Annotated[int, Field(ge=1, le=MAX_TOP)]
    metric: Text


class Order(Model):
    """A column to sort by: `period`, a dimension or a metric."""

    column: Text
    descending: bool = False


class Query(Model):
    """Results of one or more tasks, [since, until) in ms since the epoch.

    `version`: None for each task's current one. `dimensions`: the ones to keep, the others are rolled up;
    None keeps all. `period`: a coarser one, such as ``1h``, or ``all``. `order`: by period and values unless
    given. `limit` and `offset` give a page.
    """

    tasks: Annotated[tuple[Text, ...], Field(strict=False, min_length=1, max_length=MAX_TASKS)]
    version: Annotated[int, Field(ge=1)] | None = None
    since: int | None = None
    until: int | None = None
    where: Annotated[tuple[Where, ...], Field(strict=False, max_length=MAX_CONDITIONS)] = ()
    metrics: Annotated[tuple[Text, ...], Field(strict=False, min_length=1)] | None = None
    top: Top | None = None
    dimensions: Annotated[tuple[Text, ...], Field(strict=False)] | None = None
    period: Text | None = None
    order: Annotated[tuple[Order, ...], Field(strict=False)] = ()
    limit: Annotated[int, Field(ge=1)] | None = None
    offset: Annotated[int, Field(ge=0)] = 0

    @field_validator("period")
    @classmethod
    def _period(cls, text: str | None) -> str | None:
        if text is not None and text != ALL:
            parse_period(text)
        return text

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.since is not None and self.until is not None and self.since > self.until:
            raise ValueError(f"since {self.since} is after until {self.until}: swap them")
        return self

    def check(self, task: ActiveTask) -> None:
        """Raise BadQuery if the task cannot answer it."""
        dimensions = [each.name for each in task.spec.dimensions]
        metrics = list(task.spec.metrics)
        for where in self.where:
            _known("where", where.dimension, dimensions, task)
        for name in self.dimensions or ():
            _known("dimensions", name, dimensions, task)
        for name in self.metrics or ():
            _known("metrics", name, metrics, task)
        shown = self.shown_metrics(task)
        kept = self.kept_dimensions(task)
        for order in self.order:
            _known("order", order.column, [PERIOD, *kept, *shown], task)
        if self.top is not None:
            _known("top", self.top.metric, metrics, task)
            _check_top(self.top, task, kept)
        self._check_period(task)

    def shown_metrics(self, task: ActiveTask) -> list[str]:
        wanted = task.spec.metrics if self.metrics is None else self.metrics
        return [name for name in task.spec.metrics if name in wanted]

    def kept_dimensions(self, task: ActiveTask) -> list[str]:
        names = [each.name for each in task.spec.dimensions]
        return names if self.dimensions is None else [name for name in names if name in self.dimensions]

    def _check_period(self, task: ActiveTask) -> None:
        if self.period is None or self.period == ALL:
            return
        try:
            coarse, own = parse_period(self.period), parse_period(task.spec.period)
        except BadPeriod as error:
            raise BadQuery(f"period: {error}") from None
        if coarse % own:
            raise BadQuery(
                f"period: {self.period!r} is no multiple of {task.spec.name}'s period {task.spec.period!r}: "
                f'choose one, or "{ALL}"'
            )


def _check_top(top: Top, task: ActiveTask, kept: list[str]) -> None:
    if not kept:
        raise BadQuery(f"top: {task.spec.name} has one series here: keep a dimension, or leave out the top")
    if is_list(top.metric):
        raise BadQuery(f"top: {top.metric!r} is a list, and lists have no order: choose a number")


def is_list(name: str) -> bool:
    """Whether the metric's value is a list, as JSON."""
    return name.startswith("top") and name[3:].isdigit()


def _known(field: str, name: str, known: Iterable[str], task: ActiveTask) -> None:
    there = list(known)
    if name not in there:
        choice = f"choose of {', '.join(there)}" if there else "it has none"
        raise BadQuery(f"{field}: {task.spec.name} ({task.label}) has no {name!r}: {choice}")
