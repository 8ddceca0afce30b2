"""What a statement's conditions leave to read.

Spark checks every condition again, so a condition that is not understood here only costs time. What is
understood must never leave out a row that passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from sluice.results.periods import ALWAYS
from sluice.results.query import MAX_CONDITIONS, MAX_TEXT, MAX_VALUES, PERIOD, Where

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


@dataclass(frozen=True)
class ScanBounds:
    """Bounds of what is read: periods that start in [since, until), and columns' values (None: any)."""

    since: int = ALWAYS.start  # ms since the epoch
    until: int = ALWAYS.stop
    values: tuple[tuple[str, frozenset[Any]], ...] = ()  # a column may come more than once
    prefixes: tuple[tuple[str, str], ...] = ()

    def may_be(self, column: str, value: object) -> bool:
        """Whether rows with this value in the column are asked for."""
        return all(value in allowed for name, allowed in self.values if name == column)

    def where(self, dimensions: Sequence[str]) -> tuple[Where, ...]:
        """The conditions on dimensions that a query can carry."""
        found = [
            Where(dimension=name, values=tuple(sorted(allowed)))
            for name, allowed in self.values
            if name in dimensions and 0 < len(allowed) <= MAX_VALUES and _fit(allowed)
        ]
        found += [
            Where(dimension=name, prefix=prefix)
            for name, prefix in self.prefixes
            if name in dimensions and _fit((prefix,))
        ]
        return tuple(found[:MAX_CONDITIONS])

    @property
    def nothing(self) -> bool:
        """Whether no row can pass."""
        return self.since >= self.until or any(not allowed for _, allowed in self.values)


def asked(filters: Iterable[Filter]) -> ScanBounds:
    """The bounds that the filters give."""
    found = ScanBounds()
    for each in filters:
        column = ".".join(getattr(each, "attribute", ()))
        found = _in_time(found, each) if column == PERIOD else _with(found, column, each)
    return found


def _in_time(found: ScanBounds, given: Filter) -> ScanBounds:
    """Periods start at whole milliseconds, and a filter's moment may lie between two."""
    match given:
        case EqualTo(_, datetime() as at) | EqualNullSafe(_, datetime() as at):
            since, until = _up(at), _down(at) + 1
        case GreaterThan(_, datetime() as at):
            since, until = _down(at) + 1, found.until
        case GreaterThanOrEqual(_, datetime() as at):
            since, until = _up(at), found.until
        case LessThan(_, datetime() as at):
            since, until = found.since, _up(at)
        case LessThanOrEqual(_, datetime() as at):
            since, until = found.since, _down(at) + 1
        case In(_, values) if values and all(isinstance(at, datetime) for at in values):
            since, until = _up(min(values)), _down(max(values)) + 1
        case _:
            return found
    return replace(found, since=max(found.since, since), until=min(found.until, until))


def _with(found: ScanBounds, column: str, given: Filter) -> ScanBounds:
    match given:
        case EqualTo(_, value) | EqualNullSafe(_, value):
            return replace(found, values=(*found.values, (column, frozenset({value}))))
        case In(_, values):
            # A null among the values passes no row.
            own = frozenset(value for value in values if value is not None)
            return replace(found, values=(*found.values, (column, own)))
        case StringStartsWith(_, prefix):
            return replace(found, prefixes=(*found.prefixes, (column, prefix)))
    return found


def _fit(texts: Iterable[object]) -> bool:
    return all(isinstance(text, str) and len(text) <= MAX_TEXT for text in texts)


def _down(at: datetime) -> int:
    return (at - _EPOCH) // _MS


def _up(at: datetime) -> int:
    return -((_EPOCH - at) // _MS)
