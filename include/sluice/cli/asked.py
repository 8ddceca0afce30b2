"""What is typed after `sluice results`, as a `results.query.Query`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sluice.results.query import Order, Query, Top, Where

_WHERE = re.compile(r"([a-z][a-z0-9_-]*)(\^=|~=|=)(.*)", re.DOTALL)
_PERIOD = re.compile(r"[0-9]+[smhd]|all")
_TOP = re.compile(r"([0-9]+)(?::(\S+))?")
#: Rolls up all dimensions.
TOTAL = "total"


class BadOption(ValueError):
    """An option's value that could not be read."""


@dataclass(frozen=True)
class Given:
    """The options as they were typed."""

    where: Sequence[str] = ()
    top: str | None = None
    rollup: Sequence[str] = ()
    sort: Sequence[str] = ()
    limit: int | None = None


def query(
    task: str,
    when: tuple[int | None, int | None] = (None, None),
    version: int | None = None,
    given: Given | None = None,
) -> Query:
    """The query for these options, for periods that start in `when` (ms, [since, until)).

    Raises BadOption, and pydantic's ValidationError.
    """
    from sluice.results.query import Query

    given = given or Given()
    period, dimensions = _rollup(given.rollup)
    return Query(
        tasks=(task,),
        version=version,
        since=when[0],
        until=when[1],
        where=_where(given.where),
        top=None if given.top is None else _top(given.top),
        period=period,
        dimensions=dimensions,
        order=tuple(map(_order, given.sort)),
        limit=given.limit,
    )


def _where(texts: Sequence[str]) -> tuple[Where, ...]:
    """One condition for each text; the values that are named for one dimension are alternatives."""
    from sluice.results.query import Where

    found: list[Where] = []
    values: dict[str, list[str]] = {}
    for text in texts:
        match = _WHERE.fullmatch(text)
        if match is None:
            raise BadOption(
                f"--where {text!r}: write DIMENSION=VALUE, DIMENSION^=PREFIX or DIMENSION~=PATTERN"
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
        raise BadOption(f"--top {text!r}: write how many series, and by which metric: 10:count")
    return Top(n=int(match[1]), metric=match[2] or "count")


def _rollup(texts: Sequence[str]) -> tuple[str | None, tuple[str, ...] | None]:
    """A coarser period, and the dimensions to keep; None where nothing was asked for."""
    words = [word for text in texts for word in text.split(",")]
    periods = [word for word in words if _PERIOD.fullmatch(word)]
    names = [word for word in words if word not in periods]
    if len(periods) > 1:
        raise BadOption(f"--rollup {','.join(periods)}: name one period")
    if TOTAL in names and len(names) > 1:
        raise BadOption(f"--rollup {','.join(names)}: {TOTAL} keeps no dimension, so name it alone")
    kept = tuple(name for name in names if name != TOTAL)
    return (periods[0] if periods else None), (kept if names else None)


def _order(text: str) -> Order:
    from sluice.results.query import Order

    name, colon, direction = text.partition(":")
    if (colon and direction not in ("asc", "desc")) or not name:
        raise BadOption(f"--sort {text!r}: write a column, and :desc for the largest first")
    return Order(column=name, descending=direction == "desc")
