"""What is known of each day of event time, for people: one state a day, from the platform's books."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum

import sqlalchemy as sa

from sluice.storage.tables import reconciled, schema
from sluice.storage.tables.days import Day, out_of_date
from sluice.storage.tables.reconciled import ComparisonOutcome, DayCompared


class CalendarState(StrEnum):
    """What is known of a day."""

    DIFFERS = "differs"  # compared; not published
    SUPERSEDED = "superseded"  # published or compared, and something came since
    OPEN = "open"  # computed, not compared
    NOT_COMPUTED = "not computed"  # it has lines
    AGREES = "agrees"  # compared and published
    DROPPED = "dropped"  # beyond retention
    NONE = "none"  # without lines


#: What a day's state means, in the order in which people should look at them.
STATES: Mapping[CalendarState, str] = {
    CalendarState.DIFFERS: "the layers count differently; what was compared is not published",
    CalendarState.SUPERSEDED: "published or compared, but to be computed again",
    CalendarState.OPEN: "computed at night, not compared yet",
    CalendarState.NOT_COMPUTED: "has lines, but no night computed it yet",
    CalendarState.AGREES: "compared and published",
    CalendarState.DROPPED: "its results are beyond retention",
    CalendarState.NONE: "no lines",
}


@dataclass(frozen=True)
class DayState:
    """One day of a topic."""

    day: date
    state: CalendarState
    lines: int  # that the speed layer counted
    why: str  # of a superseded day
    computed: Day | None
    compared: DayCompared | None  # the newest comparison
    uncounted: frozenset[tuple[int, int]] = frozenset()  # versions that the night could not count

    def of_task(self, name: str, versions: Sequence[tuple[int, int]]) -> CalendarState:
        """The state of the day for one task.

        versions: the task's. A day that differs only in other tasks agrees for this one; it is not published.
        """
        if self.uncounted.intersection(versions):
            return CalendarState.NOT_COMPUTED
        if self.state != CalendarState.DIFFERS or self.compared is None:
            return self.state
        found = self.compared.details.get("tasks")
        if found is None:
            return self.state
        own = [counts for title, counts in found.items() if title.rpartition(" (")[0] == name]
        if any(differing for _, differing in own):
            return CalendarState.DIFFERS
        return CalendarState.AGREES if own else CalendarState.NONE


def days_of(engine: sa.Engine, topic: str, first: date, last: date) -> list[DayState]:
    """The days from `first` to `last` that the platform knows anything of, in order."""
    with engine.connect() as connection:
        lines = _lines(connection, topic, first, last)
        computed = _computed(connection, topic, first, last)
        outdated = out_of_date(connection, topic, [*computed.values()])
        outcomes = _outcomes(connection, topic, first, last)
        dropped = _days(connection, schema.dropped_days, topic, first, last)
        uncounted = _uncounted(connection, topic, first, last)
    compared = reconciled.newest_of_days(engine, topic, first, last)
    found = []
    for day in sorted({*lines, *computed, *dropped}):
        own, why = computed.get(day), outdated.get(day, "")
        state = _state(own, why, outcomes.get(day), lines.get(day, 0), day in dropped)
        missing = frozenset(uncounted.get(day, ()))
        found.append(DayState(day, state, lines.get(day, 0), why, own, compared.get(day), missing))
    return found


def _state(
    computed: Day | None, why: str, outcome: tuple[str, datetime] | None, lines: int, dropped: bool
) -> CalendarState:
    if dropped:
        return CalendarState.DROPPED
    if computed is None:
        return CalendarState.NOT_COMPUTED if lines else CalendarState.NONE
    if why:
        return CalendarState.SUPERSEDED
    return _compared(computed, *(outcome or (None, computed.computed_at)))


def _compared(computed: Day, outcome: str | None, at: datetime) -> CalendarState:
    """The state of a day that is up to date, by its newest comparison (None: there was none)."""
    if computed.is_final and computed.published_at is not None:
        again = at > computed.published_at
        differs = again and outcome == ComparisonOutcome.DIFFERS
        return CalendarState.DIFFERS if differs else CalendarState.AGREES
    return CalendarState(outcome) if outcome and at > computed.computed_at else CalendarState.OPEN


def _lines(connection: sa.Connection, topic: str, first: date, last: date) -> dict[date, int]:
    t = schema.event_days.c
    query = sa.select(t.day, sa.func.sum(t.lines)).where(t.topic == topic, t.day.between(first, last))
    return {day: int(lines) for day, lines in connection.execute(query.group_by(t.day)) if lines}


def _computed(connection: sa.Connection, topic: str, first: date, last: date) -> dict[date, Day]:
    t = schema.days
    query = sa.select(t).where(t.c.topic == topic, t.c.day.between(first, last))
    return {row.day: Day(**row._mapping) for row in connection.execute(query)}


def _outcomes(
    connection: sa.Connection, topic: str, first: date, last: date
) -> dict[date, tuple[str, datetime]]:
    t = schema.reconciled_days.c
    query = sa.select(t.day, t.outcome, t.run_at).where(t.topic == topic, t.day.between(first, last))
    return {day: (outcome, at) for day, outcome, at in connection.execute(query)}


def _days(connection: sa.Connection, table: sa.Table, topic: str, first: date, last: date) -> set[date]:
    t = table.c
    return set(connection.scalars(sa.select(t.day).where(t.topic == topic, t.day.between(first, last))))


def _uncounted(
    connection: sa.Connection, topic: str, first: date, last: date
) -> dict[date, set[tuple[int, int]]]:
    t = schema.uncounted.c
    query = sa.select(t.day, t.task_id, t.version).where(t.topic == topic, t.day.between(first, last))
    found: dict[date, set[tuple[int, int]]] = {}
    for day, task_id, version in connection.execute(query):
        found.setdefault(day, set()).add((task_id, version))
    return found
