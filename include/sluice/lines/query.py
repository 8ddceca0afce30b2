"""What is asked of the lines behind a result, as data: the command line, REST and programs share it."""

from __future__ import annotations

import datetime as dt
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import Field

from sluice.metrics import metric
from sluice.results.query import MAX_CONDITIONS, BadQuery, Query, Text, Where
from sluice.tasks.spec import ActiveTask
from sluice.tasks.spec_base import Model

COUNT, MISSING = "count", "missing"
#: No period starts so far from 1970 (ms): the calendar would end.
FAR = 1 << 45


class BadStart(BadQuery):
    """No period of the task starts at that time; the message names the two around it."""

    def __init__(self, task: ActiveTask, start: int) -> None:
        span = task.spec.span
        before = span.start(start)
        after = span.end(before)
        nearest, other = (before, after) if start - before <= after - start else (after, before)
        super().__init__(
            f"period: {shown(start, task)} is no start of a period of {task.spec.name} ({task.spec.period}): "
            f"the nearest is {shown(nearest, task)}, and on the other side {shown(other, task)}"
        )


class LinesQuery(Model):
    """The lines behind a result: one period of a task, of the series that pass the conditions.

    `period`: its start, in ms since the epoch. `version`: None for the current one. `metric`: only the lines
    that this metric is computed of. `count` is computed of every line that passes the task's filters,
    `missing` of those without a measure, every other metric of those with one.
    """

    task: Text
    period: Annotated[int, Field(ge=-FAR, le=FAR)]
    version: Annotated[int, Field(ge=1)] | None = None
    where: Annotated[tuple[Where, ...], Field(strict=False, max_length=MAX_CONDITIONS)] = ()
    metric: Text = COUNT

    def check(self, task: ActiveTask) -> None:
        """Raise BadQuery if the task has no such dimension, metric or period."""
        metrics = None if self.metric == COUNT else (self.metric,)
        Query(tasks=(self.task,), where=self.where, metrics=metrics).check(task)
        if task.spec.span.start(self.period) != self.period:
            raise BadStart(task, self.period)

    @property
    def measured(self) -> bool | None:
        """Whether the metric takes the lines with a measure, or those without; None: both."""
        if self.metric == MISSING:
            return False
        return None if metric(self.metric).measure == "none" else True


def shown(ms: int, task: ActiveTask) -> str:
    """An instant as the task's results print it: ISO 8601 in the task's time zone."""
    zone = task.spec.timezone
    when = dt.datetime.fromtimestamp(0, dt.UTC) + dt.timedelta(milliseconds=ms)
    local = when if zone == "UTC" else when.astimezone(ZoneInfo(zone))
    text = local.isoformat(timespec="milliseconds" if ms % 1000 else "seconds")
    return f"{text.removesuffix('+00:00')}Z" if zone == "UTC" else text
