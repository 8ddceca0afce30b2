"""What people write to ask for results, as a `results.query.Query`: the command line and REST share it."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluice.results.query import Order, Query, Top, Where

_WHERE = re.compile(r"([a-z][a-z0-9_-]*)(\^=|~=|=)(.*)", re.DOTALL)
_PERIOD = re.compile(r"[0-9]+[smhd]|all")
_TOP = re.compile(r"([0-9]{1,9})(?::(\S+))?")
#: A time in ISO 8601 with microseconds and an offset.
_LONGEST = 40
#: Rolls up all dimensions.
TOTAL = "total"


class BadText(ValueError):
    """A text that could not be read; the message begins with the name of what was asked for."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field} {message}")
        self.field = field


class BadMoment(ValueError):
    """A point in time that could not be read."""


@dataclass(frozen=True)
class WrittenQuery:
    """What was written."""

    where: Sequence[str] = ()
    top: str | None = None
    rollup: Sequence[str] = ()
    sort: Sequence[str] = ()
    limit: int | None = None
    metrics: Sequence[str] = ()
    offset: int = 0


def moment(text: str | None) -> int | None:
    """Milliseconds since the epoch for a day or a time in ISO 8601.

    A time without an offset is in UTC. Raises BadMoment.
    """
    if text is None:
        return None
    try:
        when = dt.datetime.fromisoformat(text if len(text) <= _LONGEST else "")
        when = when if when.tzinfo else when.replace(tzinfo=dt.UTC)
        return int(when.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise BadMoment(
            f"{text[:100]!r} is no time: write a day (2015-05-17) or a time (2015-05-17T10:05:00, or with "
            "an offset, +02:00; UTC without one)"
        ) from None


def query(
    task: str,
    when: tuple[int | None, int | None] = (None, None),
    version: int | None = None,
    given: WrittenQuery | None = None,
) -> Query:
    """The query for what was written, for periods that start in `when` (ms, [since, until)).

    Raises BadText, and pydantic's ValidationError.
    """
    from sluice.results.query import Query

    given = given or WrittenQuery()
    period, dimensions = _rollup(given.rollup)
    return Query(
        tasks=(task,),
        version=version,
        since=when[0],
        until=when[1],
        where=_where(given.where),
        metrics=_words(given.metrics) or None,
        top=None if given.top is None else _top(given.top),
        period=period,
        dimensions=dimensions,
        order=tuple(map(_order, given.sort)),
        limit=given.limit,
        offset=given.offset,
    )


def _where(texts: Sequence[str]) -> tuple[Where, ...]:
    """One condition for each text; the values that are named for one dimension are alternatives."""
    from sluice.results.query import Where

    found: list[Where] = []
    values: dict[str, list[str]] = {}
    for text in texts:
        match = _WHERE.fullmatch(text)
        if match is None:
            raise BadText(
                "where", f"{text!r}: write DIMENSION=VALUE, DIMENSION^=PREFIX or DIMENSION~=PATTERN"
            )
        name, how, what = match.groups()
        if how == "=":
            values.setdefault(name, []).append(what)
        elif how == "^=":
            found.append(Where(dimension=name, prefix=what))
        else:
            found.append(Where(dimension=name, pattern=what))
    return (*(Where(dimension=name, values=tuple(own)) for name, own in values.items()), *found)


def _top(text: str) -> Top:
    from sluice.results.query import Top

    match = _TOP.fullmatch(text)
    if match is None:
        raise BadText("top", f"{text!r}: write how many series, and by which metric: 10:count")
    return Top(n=int(match[1]), metric=match[2] or "count")


def _rollup(texts: Sequence[str]) -> tuple[str | None, tuple[str, ...] | None]:
    """A coarser period, and the dimensions to keep; None where nothing was asked for."""
    words = _words(texts)
    periods = [word for word in words if _PERIOD.fullmatch(word)]
    names = [word for word in words if word not in periods]
    if len(periods) > 1:
        raise BadText("rollup", f"{','.join(periods)}: name one period")
    if TOTAL in names and len(names) > 1:
        raise BadText("rollup", f"{','.join(names)}: {TOTAL} keeps no dimension, so name it alone")
    kept = tuple(name for name in names if name != TOTAL)
    return (periods[0] if periods else None), (kept if names else None)


def _words(texts: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for text in texts for word in text.split(","))


def _order(text: str) -> Order:
    from sluice.results.query import Order

    name, colon, direction = text.partition(":")
    if (colon and direction not in ("asc", "desc")) or not name:
        raise BadText("sort", f"{text!r}: write a column, and :desc for the largest first")
    return Order(column=name, descending=direction == "desc")
