"""The parameters of a request for results, as a query."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BaseModel, Field, ValidationError
from starlette.datastructures import QueryParams

from sluice.results.periods import ALWAYS
from sluice.results.query import MAX_CONDITIONS, Query
from sluice.results.written_query import BadMoment, BadText, WrittenQuery, moment, query
from sluice.tasks import Problem, TasksRefused
from sluice_airflow.api.accepted import Style

#: Rows of an answer without a `limit`; and with one, at most.
ROWS, MOST_ROWS = 10_000, 10_000_000
#: Rows that a sorted answer may keep in memory.
MOST_SORTED = 100_000
_MS = re.compile(r"-?[0-9]{1,18}")
#: Which parameter gives each field of a query.
_PARAMETERS = {"dimensions": "rollup", "period": "rollup", "order": "sort"}


class ResultsIn(BaseModel):
    """What of a task's results is wanted."""

    since: str | None = Field(
        None,
        description="Periods that start at or after this day or time: in ISO 8601 (UTC unless it has an "
        "offset; write its + as %2B), or in ms since 1970.",
        examples=["2015-05-17", "2015-05-17T10:00:00Z", "2015-05-17T12:00:00+02:00", "1431820800000"],
    )
    until: str | None = Field(
        None, description="Periods that start before this day or time.", examples=["2015-05-18"]
    )
    version: int | None = Field(
        None, ge=1, le=2**31 - 1, description="A version of the task; default: the current one.", examples=[1]
    )
    where: list[str] = Field(
        [],
        max_length=MAX_CONDITIONS * 64,
        description="A condition: DIM=VALUE, DIM^=PREFIX or DIM~=PATTERN (found anywhere in the value). "
        "All conditions must hold; several values of one dimension are alternatives.",
        examples=["status=404", "status^=4", "status~=^4.4$"],
    )
    metrics: list[str] = Field(
        [], max_length=64, description="Only these metrics; default: all.", examples=["count"]
    )
    top: str | None = Field(
        None,
        max_length=200,
        description="N:METRIC: only the N series with the largest METRIC (without one: count) over the "
        "whole time. The others of a period become one row, whose dimensions are null.",
        examples=["10:count", "3"],
    )
    rollup: list[str] = Field(
        [],
        max_length=64,
        description="Keep only these dimensions (`total`: none), or a coarser period (1h, 1d, all), or both.",
        examples=["status,1h", "total,all"],
    )
    sort: list[str] = Field(
        [],
        max_length=64,
        description="COLUMN or COLUMN:desc; default: period, then dimensions. A sorted answer has at most "
        f"{MOST_SORTED:,} rows, those before its offset included.",
        examples=["count:desc", "period"],
    )
    limit: int = Field(ROWS, ge=1, le=MOST_ROWS, description="At most this many rows.", examples=[100])
    offset: int = Field(
        0, ge=0, le=10**12, description="Rows to leave out before: the next page.", examples=[100]
    )
    format: Annotated[
        Style | None, Field(description="In place of the header Accept.", examples=["json", "csv", "arrow"])
    ] = None

    def query(self, task: str, given: QueryParams) -> Query:
        """The query for these parameters of a request. Raises TasksRefused."""
        self._check(given)
        when = since, until = _moment("since", self.since), _moment("until", self.until)
        if since is not None and until is not None and since > until:
            raise _refused("since", f"since {self.since} is after until {self.until}: swap them")
        asked = WrittenQuery(
            where=self.where,
            top=self.top,
            rollup=self.rollup,
            sort=self.sort,
            limit=self.limit,
            metrics=self.metrics,
            offset=self.offset,
        )
        try:
            return query(task, when, self.version, asked)
        except BadText as error:
            raise _refused(error.field, str(error)) from None
        except ValidationError as error:
            raise _invalid(error) from None

    def _check(self, given: QueryParams) -> None:
        several = [name for name, field in ResultsIn.model_fields.items() if field.annotation == list[str]]
        for name in given:
            if name not in ResultsIn.model_fields:
                known = ", ".join(ResultsIn.model_fields)
                raise _refused(name, f"there is no parameter {name[:100]!r}: choose of {known}")
            if name not in several and len(given.getlist(name)) > 1:
                raise _refused(name, f"{name} is given {len(given.getlist(name))} times: give it once")
        if self.sort and self.offset + self.limit > MOST_SORTED:
            raise _refused(
                "sort",
                f"sort: offset and limit are {self.offset + self.limit:,} together, over {MOST_SORTED:,}: "
                "ask for fewer rows, or leave out sort",
            )


def parameter(field: str) -> str:
    """The parameter that gives a field of a query."""
    return _PARAMETERS.get(field, field)


def _moment(name: str, text: str | None) -> int | None:
    if text is None or not _MS.fullmatch(text):
        try:
            return moment(text)
        except BadMoment as error:
            raise _refused(name, f"{name}: {error}") from None
    if int(text) not in ALWAYS:
        raise _refused(name, f"{name}: {text} is beyond all times: write ms since 1970")
    return int(text)


def _invalid(error: ValidationError) -> TasksRefused:
    """What a part of the query says first, at the parameter that gave it."""
    own = {"Where": "where", "Top": "top", "Order": "sort"}.get(error.title)
    first = error.errors()[0]
    place = list(map(str, first["loc"]))
    name = own or parameter(place[0] if place else "since")
    return _refused(
        name, ": ".join([*([own] if own else []), *place, first["msg"].removeprefix("Value error, ")])
    )


def _refused(name: str, message: str) -> TasksRefused:
    return TasksRefused([Problem(f"/{name.replace('~', '~0').replace('/', '~1')[:100]}", message)])
