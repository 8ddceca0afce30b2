"""What a chart's address asks for, as a query."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from pydantic import BaseModel, Field, ValidationError

from sluice.results.chart import drawable
from sluice.results.layers import Layers
from sluice.results.newest import newest_start
from sluice.results.periods import ALWAYS
from sluice.results.query import MAX_CONDITIONS, BadQuery, Query, Top
from sluice.results.written_query import BadMoment, BadText, WrittenQuery, moment, query
from sluice.tasks.period import BadPeriod, Period, parse_period
from sluice.tasks.spec import ActiveTask

#: Series that are drawn unless the address says how many, and at most.
SERIES, MOST_SERIES = 5, 100
#: Without a period of its own a chart has at most PERIODS periods of the task; else they are rolled up.
PERIODS = 2_000
COARSER = ("1m", "5m", "15m", "1h", "6h", "1d", "7d")
LAST, EVERYTHING = "24h", "all"
_MS = re.compile(r"-?[0-9]{9,18}")
_LAST = re.compile(r"([0-9]{1,5})(m|h|d)")


class ChartIn(BaseModel):
    """What is to be drawn, as it stands in the address."""

    task: str = Field("", max_length=200)
    version: int | None = Field(None, ge=1, le=2**31 - 1)
    metric: list[str] = Field([], max_length=64)
    split: list[str] = Field([], max_length=64)
    top: int = Field(SERIES, ge=1, le=MOST_SERIES)
    by: str = Field("", max_length=200)
    where: list[str] = Field([], max_length=MAX_CONDITIONS * 64)
    last: str = Field("", max_length=20)
    since: str = Field("", max_length=40)
    until: str = Field("", max_length=40)
    period: str = Field("", max_length=20)
    shape: str = Field("line", pattern="line|stack|bars")
    compare: str = Field("", pattern="|before|week")
    bare: bool = False

    def given(self) -> WrittenQuery:
        """What was asked for, as people write it."""
        wanted = [each for each in self.where if each]
        return WrittenQuery(where=wanted, metrics=[each for each in self.metric if each])


@dataclass(frozen=True)
class ChartQuery:
    """A chart's query of one task. The times are in ms; `period` is the one that is drawn."""

    task: ActiveTask
    query: Query
    since: int
    until: int
    period: str

    @property
    def period_ms(self) -> int:
        return parse_period(self.period) * 1000

    def whole(self, since: int, until: int) -> ChartQuery:
        """The same for all periods that this time touches: in part, a period would show too little."""
        cut = Period(parse_period(self.period), self.task.spec.timezone)
        first, last = _possible(since), _possible(until - 1)
        since, until = _possible(cut.start(first)), _possible(cut.end(cut.start(last)))
        query = self.query.model_copy(update={"since": since, "until": until})
        return replace(self, query=query, since=since, until=until)

    def shifted(self, by: int) -> Query:
        """The same for the time that is `by` ms earlier."""
        return self.whole(self.since - by, self.until - by).query


def asked(layers: Layers, chart: ChartIn) -> ChartQuery:
    """The query for a chart's address.

    Raises BadQuery, UnknownTask and UnknownVersion; what the stores raise.
    """
    task = layers.task(chart.task, chart.version)
    since, until = _range(layers, task, chart)
    period = chart.period or _drawn(task, until - since)
    split = [each for each in chart.split if each]
    numbers = drawable(task.spec.metrics)
    if not numbers:
        raise BadQuery(f"metrics: {task.spec.name} has none that is a number, so nothing can be drawn")
    try:
        made = query(task.spec.name, (since, until), chart.version, chart.given())
    except BadText as error:
        raise BadQuery(str(error)) from None
    except ValidationError as error:
        raise BadQuery("; ".join(each["msg"] for each in error.errors())) from None
    changes = {
        "metrics": made.metrics or tuple(numbers[:1]),
        "dimensions": tuple(split),
        "period": period,
        "top": Top(n=chart.top, metric=chart.by or (made.metrics or tuple(numbers))[0]) if split else None,
    }
    made = made.model_copy(update=changes)
    try:
        parse_period(period)
    except BadPeriod as error:
        raise BadQuery(f"period: {error}") from None
    made.check(task)
    if not set(made.metrics or ()) <= set(numbers):
        raise BadQuery(f"metrics: lists cannot be drawn: choose of {', '.join(numbers)}")
    own = None if period == task.spec.period else period
    found = ChartQuery(task, made.model_copy(update={"period": own}), since, until, period)
    return found.whole(since, until)


def _possible(ms: int) -> int:
    """The time, or the nearest one that there can be results of."""
    return min(max(ms, ALWAYS.start), ALWAYS.stop - 1)


def _range(layers: Layers, task: ActiveTask, chart: ChartIn) -> tuple[int, int]:
    """The time to show, [since, until) in ms: as given, or the last of it that has results."""
    since, until = _moment("since", chart.since), _moment("until", chart.until)
    if since is not None and until is not None:
        if since >= until:
            raise BadQuery("since: it is not before until: swap them")
        return since, until
    sides = layers.sides(task, ALWAYS.start, ALWAYS.stop)
    newest = newest_start(sides)
    if newest is None:
        return 0, 1
    own = Period(parse_period(task.spec.period), task.spec.timezone).ms
    end = newest + own if until is None else until
    if since is not None:
        return min(since, end - own), end
    last = chart.last or LAST
    if last == EVERYTHING:
        first = [*sides.open, *(block.first for each in sides.final for block in each.blocks)]
        return min([*first, end - own]), end
    match = _LAST.fullmatch(last)
    if match is None:
        raise BadQuery(f"last: {last!r}: write a number and one of m, h, d, such as {LAST}, or {EVERYTHING}")
    seconds = int(match[1]) * {"m": 60, "h": 3_600, "d": 86_400}[match[2]]
    return end - max(seconds * 1000, own), end


def _drawn(task: ActiveTask, ms: int) -> str:
    """The task's own period, or the finest coarser one with few enough periods."""
    own = parse_period(task.spec.period)
    steps = [each for each in COARSER if parse_period(each) % own == 0 and parse_period(each) > own]
    for each in (task.spec.period, *steps):
        if ms / (parse_period(each) * 1000) <= PERIODS:
            return each
    return steps[-1] if steps else task.spec.period


def _moment(name: str, text: str) -> int | None:
    """A time in ms, from ms or ISO 8601; None for nothing."""
    try:
        found = int(text) if _MS.fullmatch(text) else moment(text or None)
    except BadMoment as error:
        raise BadQuery(f"{name}: {error}") from None
    if found is not None and found not in ALWAYS:
        raise BadQuery(f"{name}: {text} is beyond all times: write a time such as 2015-05-17T10:00:00Z")
    return found
